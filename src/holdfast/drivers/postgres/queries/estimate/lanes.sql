-- For each queue and type that has jobs in lanes: the number of due jobs, since when the first has been due, the number of
-- jobs that are not due, and how many of these are parked. Up to a limit in each lane; the last two columns say whether
-- the limit was reached. Index: jobs_lane; skips from one pair to the next, at most 1000 pairs.
WITH RECURSIVE pairs (queue, type, number) AS (
  (SELECT j.queue, j.type, 1 FROM holdfast.jobs AS j
    WHERE j.space = %(space)s AND j.state = 'ready' AND j.turn ORDER BY j.queue, j.type LIMIT 1)
  UNION ALL
  SELECT n.queue, n.type, p.number + 1
    FROM pairs AS p
   CROSS JOIN LATERAL (
     SELECT j.queue, j.type FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.state = 'ready' AND j.turn AND (j.queue, j.type) > (p.queue, p.type)
      ORDER BY j.queue, j.type LIMIT 1) AS n
   WHERE p.number < 1000
)
SELECT p.queue, p.type, sum(due.jobs)::bigint, t.now - greatest(0, min(due.oldest)), sum(later.jobs)::bigint, sum(later.parked)::bigint,
       bool_or(due.jobs >= %(limit)s), bool_or(later.jobs >= %(limit)s)
  FROM pairs AS p
 CROSS JOIN (SELECT holdfast.effective_now(%(now)s) AS now OFFSET 0) AS t
 CROSS JOIN generate_series(0, 9) AS l (priority) CROSS JOIN (VALUES (false), (true)) AS i (isolated)
 CROSS JOIN LATERAL (
   SELECT count(*) AS jobs, min(first.available_at) AS oldest
     FROM (SELECT j.available_at FROM holdfast.jobs AS j
            WHERE j.space = %(space)s AND j.queue = p.queue AND j.type = p.type AND j.priority = l.priority
              AND j.isolated = i.isolated AND j.state = 'ready' AND j.turn AND j.available_at <= t.now
            ORDER BY j.available_at, j.seq LIMIT %(limit)s) AS first) AS due
 CROSS JOIN LATERAL (
   SELECT count(*) AS jobs, count(first.parked_from) AS parked
     FROM (SELECT j.parked_from FROM holdfast.jobs AS j
            WHERE j.space = %(space)s AND j.queue = p.queue AND j.type = p.type AND j.priority = l.priority
              AND j.isolated = i.isolated AND j.state = 'ready' AND j.turn AND j.available_at > t.now
            ORDER BY j.available_at, j.seq LIMIT %(limit)s) AS first) AS later
 GROUP BY p.queue, p.type, t.now
