-- The lanes of one queue whose first job is due. Index: holdfast_jobs_lane, one probe for the isolated jobs of a queue,
-- type and priority and one for the others. The cost does not depend on how many jobs the lanes hold.
SELECT l.queue, l.type, l.priority, kinds.isolated
  FROM holdfast_lanes AS l CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
 WHERE l.space = :space AND l.queue = :queue
   AND EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
                  AND j.isolated = kinds.isolated AND j.state = 'ready' AND j.turn = 1 AND j.available_at <= :now)
