-- The number of due jobs of a lane, up to a limit, and since when the first of them has been due. Index: holdfast_jobs_lane.
SELECT count(*), min(some.available_at)
  FROM (SELECT available_at FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
         WHERE space = :space AND queue = :queue AND type = :type AND priority = :priority AND isolated = :isolated
           AND state = 'ready' AND turn = 1 AND available_at <= :now
         ORDER BY available_at LIMIT :limit) AS some
