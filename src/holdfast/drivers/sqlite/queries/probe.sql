-- The lanes of one queue whose head is due: one index probe a lane, whatever waits behind or beside it.
SELECT l.queue, l.type, l.priority
  FROM holdfast_lanes AS l
 WHERE l.space = :space AND l.queue = :queue
   AND EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
                  AND j.state = 'ready' AND j.turn = 1 AND j.available_at <= :now)
