-- How many more jobs the settings of these queues allow, and of the types in them ('' is the whole queue). Rows that
-- count are locked until the end of the transaction, so that two reserves cannot use the same room; the caller counts
-- in a later statement, under a newer snapshot.
CREATE FUNCTION lock_limits_1(_space text, _queues text[]) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  _limited boolean;
BEGIN
  SELECT bool_or(s.max_inflight IS NOT NULL OR s.rate IS NOT NULL) INTO _limited
    FROM settings AS s
   WHERE s.space = _space AND s.queue = ANY (_queues)
     AND (s.paused_until IS NOT NULL OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL);
  IF _limited THEN
    PERFORM FROM settings AS s
      WHERE s.space = _space AND s.queue = ANY (_queues) AND (s.max_inflight IS NOT NULL OR s.rate IS NOT NULL)
      ORDER BY s.queue, s.type FOR UPDATE;
  END IF;
  RETURN _limited IS NOT NULL;
END $$;

-- QueueSettings.allowance and _level, in SQL: the level of a bucket in millionths of jobs, and what is left.
CREATE FUNCTION level_1(s settings, _now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN CASE WHEN s.rate IS NULL THEN NULL
            WHEN s.level IS NULL THEN coalesce(s.burst, greatest(1, ceil(s.rate)))::bigint * 1000000
            ELSE least(coalesce(s.burst, greatest(1, ceil(s.rate)))::bigint * 1000000,
                       s.level + floor(greatest(0, _now - s.level_at) * s.rate + 0.001)::bigint) END;

CREATE FUNCTION room_1(_space text, _queues text[], _now bigint)
RETURNS TABLE (queue text, type text, room bigint) LANGUAGE sql
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET lock_timeout = '30s' AS $$
  SELECT s.queue, s.type,
         CASE WHEN s.paused_until > _now THEN 0 ELSE greatest(0, least(
           10000,
           s.max_inflight - (SELECT count(*) FROM jobs AS j
                              WHERE s.max_inflight IS NOT NULL AND j.space = _space AND j.queue = s.queue
                                AND j.state = 'inflight' AND s.type IN ('', j.type)),
           floor(level_1(s, _now) / 1000000.0)::bigint)) END
    FROM settings AS s
   WHERE s.space = _space AND s.queue = ANY (_queues)
$$;

-- Own up to _limit due jobs of these queues (and types). In one transaction: end what has expired, give turns in domains
-- where jobs have arrived, pick by lanes, lease. Relies on jobs_lane.
--
-- The lanes that have jobs are found by skipping from one to the next in the index; only those whose head is due are
-- read further, so nothing scheduled or unknown in the backlog costs more than one probe. Where several lanes of one
-- priority compete, a first read without locks counts how many of the next jobs stand in each, and then each lane gives
-- that many, skipping what other sessions have locked: no more rows are locked than are taken.
CREATE FUNCTION reserve_1(
  _space text, _queues text[], _types text[], _limit integer, _lease_for bigint, _worker text, _bits bytea,
  _given bigint
) RETURNS TABLE (
  id text, queue text, type text, priority integer, payload bytea, run_at bigint, timeout bigint, created_at bigint,
  attempts integer, max_attempts integer, crashes integer, max_crashes integer, idempotency_key text, domain text,
  "offset" bigint, name text, meta bytea, webhook text, signature text, requested_run_at bigint, last_error text,
  failed_at bigint, token text, fence bigint, expires_at bigint, checkpoint bytea
) LANGUAGE plpgsql ROWS 100
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint := instant_1(_given);
  _limited boolean;
  _arrived_in text[];
  _arrived text[];
  _lane_queues text[];
  _lane_types text[];
  _lane_priorities integer[];
  _lane_heads bigint[];  -- from here on a lane is read: what lies before was taken, and may not be vacuumed yet
  _first integer := 1;   -- lanes of the priority that is looked at
  _last integer;
  _lane integer;
  _share integer;
  _shares integer[];
  _deep integer;
  _found tid[];
  _taken tid[] := '{}';
  _missing integer;
BEGIN
  IF EXISTS (SELECT FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
               SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight'
                  AND j.check_at <= _now ORDER BY j.check_at LIMIT 1) AS due) THEN
    PERFORM reap_1(_space, _queues, NULL, 1000, _now);
  END IF;

  IF EXISTS (SELECT FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
               SELECT FROM arrivals AS a WHERE a.space = _space AND a.queue = q.queue LIMIT 1) AS arrived) THEN
    WITH gone AS (
      DELETE FROM arrivals AS a
       WHERE a.ctid = ANY (ARRAY(SELECT a.ctid FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
                                   SELECT a.ctid FROM arrivals AS a WHERE a.space = _space AND a.queue = q.queue
                                    LIMIT 10000 FOR UPDATE SKIP LOCKED) AS a))
      RETURNING a.queue, a.domain)
    SELECT array_agg(g.queue), array_agg(g.domain) INTO _arrived_in, _arrived
      FROM (SELECT DISTINCT queue, domain FROM gone) AS g;
    IF _arrived IS NOT NULL THEN
      PERFORM pass_turns_1(_space, _arrived_in, _arrived);
    END IF;
  END IF;

  _limited := lock_limits_1(_space, _queues);
  _now := instant_1(_given);  -- after every wait for others

  WITH RECURSIVE asked (queue, type) AS (
    SELECT q.queue, t.type FROM unnest(_queues) AS q (queue)
     CROSS JOIN unnest(coalesce(_types, ARRAY[NULL])) AS t (type)
  ), lanes (queue, asked_type, type, priority, head) AS (
    SELECT a.queue, a.type, h.type, h.priority, h.available_at
      FROM asked AS a CROSS JOIN LATERAL (
        (SELECT j.type, j.priority, j.available_at FROM jobs AS j
          WHERE a.type IS NULL AND j.space = _space AND j.queue = a.queue AND j.state = 'ready' AND j.turn
          ORDER BY j.type, j.priority, j.available_at, j.seq LIMIT 1)
        UNION ALL
        (SELECT j.type, j.priority, j.available_at FROM jobs AS j
          WHERE a.type IS NOT NULL AND j.space = _space AND j.queue = a.queue AND j.type = a.type
            AND j.state = 'ready' AND j.turn
          ORDER BY j.priority, j.available_at, j.seq LIMIT 1)) AS h
    UNION ALL
    SELECT l.queue, l.asked_type, h.type, h.priority, h.available_at
      FROM lanes AS l CROSS JOIN LATERAL (
        (SELECT j.type, j.priority, j.available_at FROM jobs AS j
          WHERE l.asked_type IS NULL AND j.space = _space AND j.queue = l.queue
            AND (j.type, j.priority) > (l.type, l.priority) AND j.state = 'ready' AND j.turn
          ORDER BY j.type, j.priority, j.available_at, j.seq LIMIT 1)
        UNION ALL
        (SELECT j.type, j.priority, j.available_at FROM jobs AS j
          WHERE l.asked_type IS NOT NULL AND j.space = _space AND j.queue = l.queue AND j.type = l.type
            AND j.priority > l.priority AND j.state = 'ready' AND j.turn
          ORDER BY j.priority, j.available_at, j.seq LIMIT 1)) AS h
  )
  SELECT array_agg(l.queue ORDER BY l.priority DESC, l.head), array_agg(l.type ORDER BY l.priority DESC, l.head),
         array_agg(l.priority ORDER BY l.priority DESC, l.head), array_agg(l.head ORDER BY l.priority DESC, l.head)
    INTO _lane_queues, _lane_types, _lane_priorities, _lane_heads
    FROM lanes AS l WHERE l.head <= _now;

  WHILE _first <= cardinality(_lane_priorities) AND cardinality(_taken) < _limit LOOP
    _last := _first;
    WHILE _lane_priorities[_last + 1] = _lane_priorities[_first] LOOP
      _last := _last + 1;
    END LOOP;
    _missing := _limit - cardinality(_taken);

    IF _limited THEN
      _shares := ARRAY(
        WITH room AS MATERIALIZED (
          SELECT r.queue, r.type, r.room - (SELECT count(*) FROM unnest(_taken) AS t (place) JOIN jobs AS j
                                               ON j.ctid = t.place
                                            WHERE j.queue = r.queue AND r.type IN ('', j.type)) AS room
            FROM room_1(_space, _queues, _now) AS r
        ), waiting AS (
          SELECT lane.number, lane.queue, h.available_at, h.seq,
                 row_number() OVER (PARTITION BY lane.queue, lane.type ORDER BY h.available_at, h.seq) AS in_type,
                 coalesce((SELECT r.room FROM room AS r WHERE r.queue = lane.queue AND r.type = lane.type), _limit)
                   AS type_room
            FROM unnest(_lane_queues[_first:_last], _lane_types[_first:_last], _lane_heads[_first:_last])
                 WITH ORDINALITY AS lane (queue, type, head, number)
           CROSS JOIN LATERAL (SELECT j.available_at, j.seq FROM jobs AS j
                                WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type
                                  AND j.priority = _lane_priorities[_first] AND j.state = 'ready' AND j.turn
                                  AND j.available_at BETWEEN lane.head AND _now
                                ORDER BY j.available_at, j.seq LIMIT _missing) AS h
        ), fitting AS (
          SELECT w.number, w.available_at, w.seq,
                 row_number() OVER (PARTITION BY w.queue ORDER BY w.available_at, w.seq) AS in_queue,
                 coalesce((SELECT r.room FROM room AS r WHERE r.queue = w.queue AND r.type = ''), _limit) AS queue_room
            FROM waiting AS w WHERE w.in_type <= w.type_room
        ), next AS (
          SELECT f.number FROM fitting AS f WHERE f.in_queue <= f.queue_room
           ORDER BY f.available_at, f.seq LIMIT _missing
        )
        SELECT (SELECT count(*) FROM next AS n WHERE n.number = lane.number)::integer
          FROM generate_series(1, _last - _first + 1) AS lane (number) ORDER BY lane.number);
    ELSIF _first = _last THEN
      _shares := ARRAY[_missing];
    ELSE
      -- Few of many lanes give much: read a little of each, and deeper while one may have more than was read.
      _deep := greatest(4, 4 * _missing / (_last - _first + 1));
      LOOP
        _deep := least(_deep, _missing);
        _shares := ARRAY(
          WITH next AS MATERIALIZED (
            SELECT lane.number
              FROM unnest(_lane_queues[_first:_last], _lane_types[_first:_last], _lane_heads[_first:_last])
                   WITH ORDINALITY AS lane (queue, type, head, number)
             CROSS JOIN LATERAL (SELECT j.available_at, j.seq FROM jobs AS j
                                  WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type
                                    AND j.priority = _lane_priorities[_first] AND j.state = 'ready' AND j.turn
                                    AND j.available_at BETWEEN lane.head AND _now
                                  ORDER BY j.available_at, j.seq LIMIT _deep) AS h
             ORDER BY h.available_at, h.seq LIMIT _missing
          ), counted AS (
            SELECT n.number, count(*) AS share FROM next AS n GROUP BY n.number
          )
          SELECT coalesce((SELECT c.share FROM counted AS c WHERE c.number = lane.number), 0)::integer
            FROM generate_series(1, _last - _first + 1) AS lane (number) ORDER BY lane.number);
        EXIT WHEN _deep >= _missing OR NOT (_deep = ANY (_shares));
        _deep := _deep * 4;
      END LOOP;
    END IF;

    FOR _lane IN _first .. _last LOOP
      _share := _shares[_lane - _first + 1];
      IF _share > 0 THEN
        _found := ARRAY(
          SELECT j.ctid FROM jobs AS j
           WHERE j.space = _space AND j.queue = _lane_queues[_lane] AND j.type = _lane_types[_lane]
             AND j.priority = _lane_priorities[_lane] AND j.state = 'ready' AND j.turn
             AND j.available_at BETWEEN _lane_heads[_lane] AND _now
           ORDER BY j.available_at, j.seq LIMIT _share FOR UPDATE SKIP LOCKED);
        _taken := _taken || _found;
      END IF;
    END LOOP;

    -- Others took what was counted: whatever else is due in these lanes will do.
    IF NOT _limited AND _first < _last AND cardinality(_taken) < _limit AND _missing <= (SELECT sum(s) FROM unnest(_shares) AS s) THEN
      FOR _lane IN _first .. _last LOOP
        EXIT WHEN cardinality(_taken) >= _limit;
        _missing := _limit - cardinality(_taken);
        _found := ARRAY(
          SELECT j.ctid FROM jobs AS j
           WHERE j.space = _space AND j.queue = _lane_queues[_lane] AND j.type = _lane_types[_lane]
             AND j.priority = _lane_priorities[_lane] AND j.state = 'ready' AND j.turn
             AND j.available_at BETWEEN _lane_heads[_lane] AND _now
             AND j.ctid <> ALL (_taken)
           ORDER BY j.available_at, j.seq LIMIT _missing FOR UPDATE SKIP LOCKED);
        _taken := _taken || _found;
      END LOOP;
    END IF;
    _first := _last + 1;
  END LOOP;

  IF _taken = '{}' THEN
    RETURN;
  END IF;

  IF cardinality(_lane_priorities) > 1 THEN
    _taken := ARRAY(SELECT j.ctid FROM unnest(_taken) AS t (place) JOIN jobs AS j ON j.ctid = t.place
                     ORDER BY j.priority DESC, j.available_at, j.seq);
  END IF;

  IF _limited THEN
    UPDATE settings AS s SET level = level_1(s, _now) - used.count * 1000000, level_at = _now
      FROM (SELECT r.queue, r.type, (SELECT count(*) FROM unnest(_taken) AS t (place) JOIN jobs AS j ON j.ctid = t.place
                                      WHERE j.queue = r.queue AND r.type IN ('', j.type)) AS count
              FROM settings AS r WHERE r.space = _space AND r.queue = ANY (_queues) AND r.rate IS NOT NULL) AS used
     WHERE s.space = _space AND s.queue = used.queue AND s.type = used.type AND used.count > 0;
  END IF;

  -- The lease begins after its rows are locked: nothing that ended before can have ended later than it.
  _now := instant_1(_given);
  RETURN QUERY
  UPDATE jobs AS j
     SET state = 'inflight', attempts = j.attempts + 1, fence = t.fence,
         token = t.fence || '.' || encode(substr(_bits, t.item::integer * 16 - 15, 16), 'hex'),
         expires_at = _now + _lease_for, check_at = _now + _lease_for, reserved_at = _now, worker = _worker,
         started_at = NULL
    FROM (SELECT p.place, p.item, nextval('counter') AS fence FROM unnest(_taken) WITH ORDINALITY AS p (place, item)
         ) AS t
   WHERE j.ctid = t.place
  RETURNING j.id, j.queue, j.type, j.priority, j.payload, j.run_at, j.timeout, j.created_at, j.attempts,
            j.max_attempts, j.crashes, j.max_crashes, j.idempotency_key, j.domain, j."offset", j.name, j.meta,
            j.webhook, j.signature, j.requested_run_at, j.last_error, j.failed_at, j.token, j.fence, j.expires_at,
            CASE WHEN j.noted THEN (SELECT n.checkpoint FROM notes AS n WHERE n.space = _space AND n.job_id = j.id) END;
END $$;
