-- Crash accounting (L7). prefetched: the lease was granted before the worker had a free place for the job. suspect: the
-- last lease expired before the job had begun. isolated: the job runs alone. ALTER TABLE can add only virtual generated
-- columns; the index below stores the value.
ALTER TABLE holdfast_jobs ADD COLUMN prefetched INTEGER NOT NULL DEFAULT 0 CHECK (prefetched IN (0, 1));
ALTER TABLE holdfast_jobs ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1));
ALTER TABLE holdfast_jobs ADD COLUMN isolated INTEGER
  GENERATED ALWAYS AS (suspect OR crashes > 0 OR attempts >= max_attempts - 1) VIRTUAL;

-- The index of reserve: a lane is (space, queue, type, priority, isolated), and its first due job is the first entry.
DROP INDEX holdfast_jobs_lane;
CREATE INDEX holdfast_jobs_lane ON holdfast_jobs (space, queue, type, priority, isolated, available_at, seq)
  WHERE state = 'ready' AND turn = 1;
