-- The lanes in which a key has parked jobs. Index: holdfast_jobs_parked, one probe per lane.
SELECT l.queue, l.type, l.priority, kinds.isolated
  FROM holdfast_lanes AS l CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
 WHERE l.space = :space AND l.queue = :queue
   AND EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_parked
                WHERE j.space = l.space AND j.queue = l.queue AND j.limit_key = :key AND j.type = l.type
                  AND j.priority = l.priority AND j.isolated = kinds.isolated AND j.parked_from IS NOT NULL)
