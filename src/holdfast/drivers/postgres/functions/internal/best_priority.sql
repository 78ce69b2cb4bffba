-- Return the highest priority of the due jobs of these queues (and types; NULL: any type) whose pauses and limits allow one
-- more job; NULL: there is none. With _isolation 'skip', isolated jobs do not count. The limits of keys are not judged.
--
-- Locks: none. Index: jobs_lane, one probe per lane, and those of free_capacity.
-- Shape: the lanes are found as in reserve.sql.
CREATE OR REPLACE FUNCTION best_priority(
  _space text, _now bigint, _queues text[], _types text[], _isolation text, _limited boolean
) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    WITH RECURSIVE requested (queue, type) AS (
      SELECT q.queue, t.type FROM unnest(_queues) AS q (queue)
       CROSS JOIN unnest(coalesce(_types, ARRAY[NULL])) AS t (type)
    ), lanes (queue, requested_type, type, priority, isolated, head) AS (
      SELECT a.queue, a.type, h.*
        FROM requested AS a CROSS JOIN LATERAL (
          (SELECT j.type, j.priority, j.isolated, j.available_at FROM jobs AS j
            WHERE a.type IS NULL AND j.space = _space AND j.queue = a.queue AND j.state = 'ready' AND j.turn
            ORDER BY j.type, j.priority, j.isolated, j.available_at, j.seq LIMIT 1)
          UNION ALL
          (SELECT j.type, j.priority, j.isolated, j.available_at FROM jobs AS j
            WHERE a.type IS NOT NULL AND j.space = _space AND j.queue = a.queue AND j.type = a.type
              AND j.state = 'ready' AND j.turn
            ORDER BY j.priority, j.isolated, j.available_at, j.seq LIMIT 1)) AS h
      UNION ALL
      SELECT l.queue, l.requested_type, h.*
        FROM lanes AS l CROSS JOIN LATERAL (
          (SELECT j.type, j.priority, j.isolated, j.available_at FROM jobs AS j
            WHERE l.requested_type IS NULL AND j.space = _space AND j.queue = l.queue
              AND (j.type, j.priority, j.isolated) > (l.type, l.priority, l.isolated) AND j.state = 'ready' AND j.turn
            ORDER BY j.type, j.priority, j.isolated, j.available_at, j.seq LIMIT 1)
          UNION ALL
          (SELECT j.type, j.priority, j.isolated, j.available_at FROM jobs AS j
            WHERE l.requested_type IS NOT NULL AND j.space = _space AND j.queue = l.queue AND j.type = l.type
              AND (j.priority, j.isolated) > (l.priority, l.isolated) AND j.state = 'ready' AND j.turn
            ORDER BY j.priority, j.isolated, j.available_at, j.seq LIMIT 1)) AS h
    ), full_places (queue, type) AS MATERIALIZED (
      SELECT c.queue, c.type FROM free_capacity(_space, _queues, _now) AS c WHERE _limited AND c.free <= 0
    )
    SELECT max(l.priority) FROM lanes AS l
     WHERE l.head <= _now AND NOT (l.isolated AND _isolation = 'skip')
       AND NOT EXISTS (SELECT FROM full_places AS f WHERE f.queue = l.queue AND f.type IN ('', l.type)));
END $$;
