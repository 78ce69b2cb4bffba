-- The number of jobs in flight by queue and type, up to a limit in each queue; the last column says whether it was reached.
-- Index: jobs_leased; skips from one queue to the next, at most 1000 queues.
WITH RECURSIVE queues (queue, number) AS (
  (SELECT j.queue, 1 FROM holdfast.jobs AS j
    WHERE j.space = %(space)s AND j.state = 'inflight' ORDER BY j.queue LIMIT 1)
  UNION ALL
  SELECT n.queue, q.number + 1
    FROM queues AS q
   CROSS JOIN LATERAL (
     SELECT j.queue FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.state = 'inflight' AND j.queue > q.queue ORDER BY j.queue LIMIT 1) AS n
   WHERE q.number < 1000
)
SELECT q.queue, l.type, count(*), sum(count(*)) OVER (PARTITION BY q.queue) >= %(limit)s
  FROM queues AS q
 CROSS JOIN LATERAL (
   SELECT j.type FROM holdfast.jobs AS j
    WHERE j.space = %(space)s AND j.queue = q.queue AND j.state = 'inflight'
    ORDER BY j.check_at LIMIT %(limit)s) AS l
 GROUP BY q.queue, l.type
