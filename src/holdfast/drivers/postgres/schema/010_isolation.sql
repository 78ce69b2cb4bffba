-- oldest: 10
-- Only suspects and jobs with crashes run alone: a job on its last attempt is not isolated any more (law L7). A worker of
-- older code would not report the start of such a job, so it must not use these tables.
--
-- A changed STORED column writes the table anew, so the indexes are dropped before and built once.
DROP INDEX jobs_lane, jobs_key_ready, jobs_parked;

ALTER TABLE jobs
  DROP COLUMN isolated,
  ADD COLUMN isolated boolean NOT NULL GENERATED ALWAYS AS (suspect OR crashes > 0) STORED;

CREATE INDEX jobs_lane ON jobs (space, queue, type, priority, isolated, available_at, seq)
  WHERE state = 'ready' AND turn;
CREATE INDEX jobs_key_ready ON jobs (space, queue, limit_key, type, isolated, priority, available_at, seq)
  WHERE token IS NULL AND turn AND limit_key IS NOT NULL AND parked_from IS NULL;
CREATE INDEX jobs_parked ON jobs (space, queue, limit_key, type, isolated, priority DESC, parked_from, seq)
  WHERE parked_from IS NOT NULL;
