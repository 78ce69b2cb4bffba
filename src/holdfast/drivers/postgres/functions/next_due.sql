-- Return how many microseconds remain until a job of these queues can run or a lease of theirs can have expired: 0
-- or less is now; NULL if nothing can happen without another call. Driver.wait sleeps for that long.
--
-- Locks: none. Index: jobs_lane (one head per lane), jobs_leased, arrivals_queue, domains_pass, key_changes_queue,
-- limit_keys_wake.
-- Shape: the lanes are found by skipping from one to the next in the index, as in reserve.sql.
CREATE OR REPLACE FUNCTION next_due(_space text, _queues text[], _caller_now bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
               (SELECT FROM arrivals AS a WHERE a.space = _space AND a.queue = q.queue LIMIT 1)
               UNION ALL
               (SELECT FROM settings AS s CROSS JOIN LATERAL (
                  SELECT FROM key_changes AS c WHERE c.space = _space AND c.queue = s.queue LIMIT 1) AS key
                 WHERE s.space = _space AND s.queue = q.queue AND s.type = '' AND s.keyed)) AS changed) THEN
    RETURN 0;
  END IF;
  RETURN (
    WITH RECURSIVE lanes (queue, type, priority, isolated, head) AS (
      SELECT q.queue, h.type, h.priority, h.isolated, h.available_at
        FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
          SELECT j.type, j.priority, j.isolated, j.available_at FROM jobs AS j
           WHERE j.space = _space AND j.queue = q.queue AND j.state = 'ready' AND j.turn
           ORDER BY j.type, j.priority, j.isolated, j.available_at, j.seq LIMIT 1) AS h
      UNION ALL
      SELECT l.queue, h.type, h.priority, h.isolated, h.available_at
        FROM lanes AS l CROSS JOIN LATERAL (
          SELECT j.type, j.priority, j.isolated, j.available_at FROM jobs AS j
           WHERE j.space = _space AND j.queue = l.queue
             AND (j.type, j.priority, j.isolated) > (l.type, l.priority, l.isolated)
             AND j.state = 'ready' AND j.turn
           ORDER BY j.type, j.priority, j.isolated, j.available_at, j.seq LIMIT 1) AS h
    ), expiring (at) AS (
      SELECT first.check_at
        FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
          SELECT j.check_at FROM jobs AS j WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight'
           ORDER BY j.check_at LIMIT 1) AS first
    ), passing (at) AS (
      SELECT first.pass_at
        FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
          SELECT d.pass_at FROM domains AS d WHERE d.space = _space AND d.queue = q.queue AND d.pass_at IS NOT NULL
           ORDER BY d.pass_at LIMIT 1) AS first
    ), waking (queue, at) AS (
      SELECT q.queue, first.wake_at
        FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
          SELECT l.wake_at FROM limit_keys AS l WHERE l.space = _space AND l.queue = q.queue AND l.wake_at IS NOT NULL
           ORDER BY l.wake_at LIMIT 1) AS first
    )
    SELECT min(i.at) - effective_now(_caller_now)
      FROM (SELECT greatest(l.head, (SELECT max(opens_at(s)) FROM settings AS s
                                      WHERE s.space = _space AND s.queue = l.queue AND s.type IN ('', l.type)))
              FROM lanes AS l
            UNION ALL
            SELECT greatest(w.at, (SELECT opens_at(s) FROM settings AS s
                                    WHERE s.space = _space AND s.queue = w.queue AND s.type = ''))
              FROM waking AS w
            UNION ALL SELECT e.at FROM expiring AS e
            UNION ALL SELECT p.at FROM passing AS p) AS i (at));
END $$;
