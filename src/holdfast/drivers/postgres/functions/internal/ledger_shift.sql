-- Return what is added to the transaction numbers of this epoch in the ledger (see schema/002_origin.sql). Raise HF002
-- if the store was restored into another server or database and its epoch has not begun: the numbers of its ledger
-- rows and those of the server cannot be compared.
--
-- Locks: none. Index: none; reads the control file of the server.
CREATE OR REPLACE FUNCTION ledger_shift(o origin) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF o.system_identifier <> (SELECT s.system_identifier FROM pg_control_system() AS s)
     OR o.database_oid <> (SELECT d.oid::bigint FROM pg_database AS d WHERE d.datname = current_database()) THEN
    RAISE SQLSTATE 'HF002' USING MESSAGE = 'the store was restored from a backup, and no process has connected since';
  END IF;
  RETURN o.epoch * 281474976710656;
END $$;
