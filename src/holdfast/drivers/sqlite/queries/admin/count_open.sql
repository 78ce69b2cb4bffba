-- The number of ready and running jobs per queue and type, and for how long the oldest one has been available. Reads every
-- one of them, and no ended job.
SELECT queue, type, CASE WHEN state = 'ready' AND coalesce(parked_from, available_at) > :now THEN 'scheduled' ELSE state END,
       count(*), :now - max(0, min(coalesce(parked_from, available_at)))
  FROM holdfast_jobs
 WHERE space = :space AND state IN (SELECT value FROM json_each(:states)) GROUP BY 1, 2, 3
