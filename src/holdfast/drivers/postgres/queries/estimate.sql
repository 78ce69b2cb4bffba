-- Count the jobs of a store of any size in bounded time (ADR 0044).

-- name: lanes
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


-- name: leases
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


-- name: sample_ended
-- Ended jobs in a random part of the pages of the table, by queue, type and state.
SELECT e.queue, e.type, e.state, count(*), NULL::bigint
  FROM holdfast.ended AS e TABLESAMPLE SYSTEM (%(percent)s)
 WHERE e.space = %(space)s GROUP BY 1, 2, 3


-- name: sample_open
-- Open jobs in a random part of the pages of the table, by queue, type and word, with the age of the oldest one. A due
-- job without the turn of its domain is waiting; a parked job has been available since parked_from.
SELECT s.queue, s.type, s.word, count(*), s.now - greatest(0, min(s.available_at))
  FROM (SELECT j.queue, j.type, coalesce(j.parked_from, j.available_at) AS available_at, t.now,
               CASE WHEN j.state <> 'ready' THEN j.state
                    WHEN coalesce(j.parked_from, j.available_at) > t.now THEN 'scheduled'
                    WHEN j.turn THEN 'ready'
                    ELSE 'waiting' END AS word
          FROM holdfast.jobs AS j TABLESAMPLE SYSTEM (%(percent)s)
         CROSS JOIN (SELECT holdfast.effective_now(%(now)s) AS now OFFSET 0) AS t
         WHERE j.space = %(space)s) AS s
 GROUP BY 1, 2, 3, s.now


-- name: sizes
-- Whether the space has more open jobs, ended jobs, and dead or cancelled jobs than a limit; and the pages of both tables.
-- Index: the primary keys and ended_few.
SELECT EXISTS (SELECT FROM holdfast.jobs WHERE space = %(space)s ORDER BY id OFFSET %(rows)s LIMIT 1),
       EXISTS (SELECT FROM holdfast.ended WHERE space = %(space)s ORDER BY id OFFSET %(rows)s LIMIT 1),
       EXISTS (SELECT FROM holdfast.ended WHERE space = %(space)s AND state <> 'done'
                ORDER BY state, id OFFSET %(rows)s LIMIT 1),
       pg_relation_size('holdfast.jobs'::regclass) / current_setting('block_size')::bigint,
       pg_relation_size('holdfast.ended'::regclass) / current_setting('block_size')::bigint
