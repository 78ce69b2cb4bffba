-- How long until a job of these queues may run or a lease of theirs may have expired, in microseconds, 0 or less for
-- now; NULL if neither can happen by itself. Reads one head per lane. Relies on jobs_lane, jobs_leased, arrivals_queue.
CREATE FUNCTION next_due_1(_space text, _queues text[], _given bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF EXISTS (SELECT FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
               SELECT FROM arrivals AS a WHERE a.space = _space AND a.queue = q.queue LIMIT 1) AS arrived) THEN
    RETURN 0;
  END IF;
  RETURN (
    WITH RECURSIVE lanes (queue, type, priority, head) AS (
      SELECT q.queue, h.type, h.priority, h.available_at
        FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
          SELECT j.type, j.priority, j.available_at FROM jobs AS j
           WHERE j.space = _space AND j.queue = q.queue AND j.state = 'ready' AND j.turn
           ORDER BY j.type, j.priority, j.available_at, j.seq LIMIT 1) AS h
      UNION ALL
      SELECT l.queue, h.type, h.priority, h.available_at
        FROM lanes AS l CROSS JOIN LATERAL (
          SELECT j.type, j.priority, j.available_at FROM jobs AS j
           WHERE j.space = _space AND j.queue = l.queue AND (j.type, j.priority) > (l.type, l.priority)
             AND j.state = 'ready' AND j.turn
           ORDER BY j.type, j.priority, j.available_at, j.seq LIMIT 1) AS h
    ), expiring (at) AS (
      SELECT first.check_at
        FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
          SELECT j.check_at FROM jobs AS j WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight'
           ORDER BY j.check_at LIMIT 1) AS first
    )
    SELECT min(i.at) - instant_1(_given)
      FROM (SELECT l.head FROM lanes AS l UNION ALL SELECT e.at FROM expiring AS e) AS i (at));
END $$;
