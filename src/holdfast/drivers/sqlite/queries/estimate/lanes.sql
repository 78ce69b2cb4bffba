-- The lanes that have ever had a job, each with and without jobs that run alone. Index: the primary key.
SELECT l.queue, l.type, l.priority, alone.value
  FROM holdfast_lanes AS l CROSS JOIN json_each('[0, 1]') AS alone
 WHERE l.space = :space LIMIT 20000
