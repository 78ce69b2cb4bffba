-- The number of jobs of a lane that are not due, up to a limit, and how many of them are parked: those are due, but their
-- limit key has no allowance. Index: holdfast_jobs_lane.
SELECT count(*), coalesce(sum(some.parked), 0)
  FROM (SELECT parked_from IS NOT NULL AS parked FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
         WHERE space = :space AND queue = :queue AND type = :type AND priority = :priority AND isolated = :isolated
           AND state = 'ready' AND turn = 1 AND available_at > :now
         LIMIT :limit) AS some
