-- Done jobs by queue and type. Reads every ended job.
SELECT queue, type, state, count(*)
  FROM holdfast.ended
 WHERE space = %(space)s AND state = 'done' AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s))
 GROUP BY 1, 2, 3
