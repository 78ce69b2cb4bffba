-- When the first job of each lane of these queues is, or becomes, available. Index: holdfast_jobs_lane, one probe per
-- lane.
SELECT (SELECT j.available_at FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
         WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
           AND j.state = 'ready' AND j.turn = 1
         ORDER BY j.available_at, j.seq LIMIT 1)
  FROM json_each(:queues) AS given CROSS JOIN holdfast_lanes AS l ON l.space = :space AND l.queue = given.value
