-- Where the transaction numbers of the ledger come from: one row with the server and database that wrote the newest
-- ones. After a restore into another server or database, the numbers start again. Then `origin.py` begins a new epoch:
-- epoch * 2^48 is added to every transaction number from there on, so that the rows keep their order and readers keep
-- their cursors.
CREATE TABLE origin (
  system_identifier  bigint  NOT NULL,
  database_oid       bigint  NOT NULL,
  epoch              integer NOT NULL CHECK (epoch BETWEEN 0 AND 32767)
);

INSERT INTO origin
SELECT s.system_identifier, d.oid::bigint, 0
  FROM pg_control_system() AS s CROSS JOIN pg_database AS d WHERE d.datname = current_database();
