-- Dead and cancelled jobs by queue, type and state. Index: ended_few; reads no done job.
SELECT queue, type, state, count(*)
  FROM holdfast.ended
 WHERE space = %(space)s AND state <> 'done' AND state = ANY (%(states)s)
   AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s))
 GROUP BY 1, 2, 3
