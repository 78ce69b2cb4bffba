-- oldest: 12
-- Large payloads have a table of their own, which no transition touches: the end of a job copies its row to the other table,
-- and so would copy the payload. payload_seq names the row of `payloads`, and payload is NULL then. Rows that are older than
-- this migration keep what they have. Older code would show jobs without their payloads, so it must not use these tables.
CREATE TABLE payloads (
  seq      bigint PRIMARY KEY,
  space    text   COLLATE "C" NOT NULL,
  payload  bytea  NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX payloads_space ON payloads (space);

ALTER TABLE jobs ADD COLUMN payload_seq bigint, ALTER COLUMN payload DROP NOT NULL;
ALTER TABLE ended ADD COLUMN payload_seq bigint, ALTER COLUMN payload DROP NOT NULL;

-- NOT VALID: rows that are there have a payload, and are not read again.
ALTER TABLE jobs ADD CONSTRAINT payload_is_here_or_there CHECK (num_nonnulls(payload, payload_seq) = 1) NOT VALID;
ALTER TABLE ended ADD CONSTRAINT payload_is_here_or_there CHECK (num_nonnulls(payload, payload_seq) = 1) NOT VALID;
