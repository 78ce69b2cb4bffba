-- Whether a job of these types is ready, scheduled or in flight in these queues.
-- Index: jobs_lane, jobs_leased (newest leases first: most older entries are of jobs that have ended), jobs_domain
-- (jobs that wait for their turn). One probe per queue, type and index.
SELECT EXISTS (
  SELECT FROM unnest(%(queues)s::text[]) AS q (queue) CROSS JOIN unnest(%(types)s::text[]) AS t (type)
   CROSS JOIN LATERAL (
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.state = 'ready' AND j.turn
      ORDER BY j.priority, j.isolated, j.available_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.state = 'inflight'
      ORDER BY j.check_at DESC LIMIT 1)
    UNION ALL
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.domain IS NOT NULL AND NOT j.turn
      ORDER BY j.domain, j."offset", j.seq LIMIT 1)) AS open)
