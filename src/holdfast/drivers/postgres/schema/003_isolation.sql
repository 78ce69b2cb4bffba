-- What the end of a lease is judged by (law L7). `prefetched` is true for a lease whose job begins later: if it expires
-- first, nothing is counted. `suspect` is true for a job whose last lease expired like that. `isolated` says that the
-- job, while it is ready, must run alone (model/isolation.py).
--
-- STORED: a virtual column cannot be indexed, and PostgreSQL 18 makes virtual columns by default. Adding it writes the
-- table anew, so the index is dropped before and built once.
DROP INDEX jobs_lane;

ALTER TABLE jobs
  ADD COLUMN prefetched  boolean NOT NULL DEFAULT false,
  ADD COLUMN suspect     boolean NOT NULL DEFAULT false,
  ADD COLUMN isolated    boolean NOT NULL
    GENERATED ALWAYS AS (suspect OR crashes > 0 OR attempts >= max_attempts - 1) STORED;

-- A lane is (space, queue, type, priority, isolated): jobs that are passed over are never read one by one.
CREATE INDEX jobs_lane ON jobs (space, queue, type, priority, isolated, available_at, seq)
  WHERE state = 'ready' AND turn;

ALTER TYPE transition ADD ATTRIBUTE suspect boolean;
