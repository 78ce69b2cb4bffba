-- Like find_lanes.sql, for the types that a worker knows: lanes of other types are not read. :types is a JSON list.
SELECT l.queue, l.type, l.priority, kinds.isolated
  FROM json_each(:types) AS given
 CROSS JOIN holdfast_lanes AS l ON l.space = :space AND l.queue = :queue AND l.type = given.value
 CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
 WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
                  AND j.isolated = kinds.isolated AND j.state = 'ready' AND j.turn = 1 AND j.available_at <= :now)
