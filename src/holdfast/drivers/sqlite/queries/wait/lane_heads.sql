-- The lanes of these queues, and when the first job of each is, or becomes, available; NULL if the lane is empty. Index:
-- holdfast_jobs_lane, one probe per lane.
SELECT l.queue, l.type, l.priority, kinds.isolated,
       (SELECT j.available_at FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
         WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
           AND j.isolated = kinds.isolated AND j.state = 'ready' AND j.turn = 1
         ORDER BY j.available_at, j.seq LIMIT 1)
  FROM json_each(:queues) AS given
 CROSS JOIN holdfast_lanes AS l ON l.space = :space AND l.queue = given.value
 CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
