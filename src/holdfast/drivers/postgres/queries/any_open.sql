-- Whether a job of these types waits, is scheduled or runs in these queues: a probe for each way, and each queue and type.
-- Relies on jobs_lane, jobs_leased (the youngest leases first: most older entries are of jobs that have ended) and, for
-- those that wait for their turn, jobs_domain.
SELECT EXISTS (
  SELECT FROM unnest(%(queues)s::text[]) AS q (queue) CROSS JOIN unnest(%(types)s::text[]) AS t (type)
   CROSS JOIN LATERAL (
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.state = 'ready' AND j.turn
      ORDER BY j.priority, j.available_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.state = 'inflight'
      ORDER BY j.check_at DESC LIMIT 1)
    UNION ALL
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.domain IS NOT NULL
      ORDER BY j.domain, j.turn DESC, j.seq LIMIT 1)) AS open)
