-- Only suspects and jobs with crashes run alone: a job on its last attempt is not isolated any more (L7).
DROP INDEX holdfast_jobs_lane;
DROP INDEX holdfast_jobs_parked;
ALTER TABLE holdfast_jobs DROP COLUMN isolated;
ALTER TABLE holdfast_jobs ADD COLUMN isolated INTEGER GENERATED ALWAYS AS (suspect OR crashes > 0) VIRTUAL;

CREATE INDEX holdfast_jobs_lane ON holdfast_jobs (space, queue, type, priority, isolated, available_at, seq)
  WHERE state = 'ready' AND turn = 1;
CREATE INDEX holdfast_jobs_parked ON holdfast_jobs (space, queue, limit_key, type, priority, isolated, parked_from, seq)
  WHERE parked_from IS NOT NULL;
