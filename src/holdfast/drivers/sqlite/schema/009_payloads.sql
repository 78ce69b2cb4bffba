-- Large payloads have a table of their own: every change of state rewrites the row of a job, or copies it to the other
-- table, and a row has its payload with it. payload_seq names the row of holdfast_payloads, and payload is empty then;
-- NULL: payload has it, as in all rows that are older than this migration.
CREATE TABLE holdfast_payloads (
  seq      INTEGER PRIMARY KEY,
  space    TEXT    NOT NULL,
  payload  BLOB    NOT NULL
) STRICT;

CREATE INDEX holdfast_payloads_space ON holdfast_payloads (space);

ALTER TABLE holdfast_jobs ADD COLUMN payload_seq INTEGER;
ALTER TABLE holdfast_ended ADD COLUMN payload_seq INTEGER;

-- For `doctor`: whether a payload has a job.
CREATE INDEX holdfast_jobs_payload ON holdfast_jobs (payload_seq) WHERE payload_seq IS NOT NULL;
CREATE INDEX holdfast_ended_payload ON holdfast_ended (payload_seq) WHERE payload_seq IS NOT NULL;
