-- Pick due jobs of each lane and lease them (L3, L10).

-- name: reserve
-- Lease up to _limit due jobs of these queues (and types; NULL: any type), in the order of law L10. Return the
-- leased jobs. _isolation is one of model/isolation.py; _max_bytes is the most that the payloads may have together
-- (NULL: any size; the first job is returned whatever its size). With _reports_expired, and if expired leases ended, the
-- first row is no job: its token is NULL, and its fence is the number of this transaction, which names their ledger rows.
--
-- Locks: those of end_expired, then those of pass_turns, the settings of limited queues, then the leased rows (SKIP LOCKED: two
-- sessions never wait for each other here). No more jobs are locked than are taken, unless _max_bytes or the limit of a
-- key cuts some off: the former are not changed, the latter are parked.
-- Index: jobs_lane for lanes and jobs, jobs_leased for expired leases, arrivals_queue, domains_pass, and those of the
-- functions for domains and keys.
-- Shape: the lanes are found by skipping from one to the next in jobs_lane; only lanes whose head is due are read
-- further. So a scheduled backlog or a type that is not requested costs one probe per lane. Where several lanes of
-- one priority compete, a first read without locks counts how many of the next jobs are in each lane, and then each
-- that many are taken from each lane. One query over all lanes with ORDER BY would sort the whole backlog. With 'alone'
-- and 'stop' the answer ends at the first isolated job. Of the lanes of isolated jobs only the heads are read: the
-- first head that the limits allow bounds what is taken from the other lanes of its priority.
CREATE OR REPLACE FUNCTION reserve(
  _space text, _caller_now bigint, _queues text[], _types text[], _limit integer, _lease_for bigint, _worker text,
  _token_bytes bytea, _max_bytes bigint, _isolation text, _prefetch boolean, _reports_expired boolean DEFAULT false
) RETURNS TABLE (
  token text, fence bigint, expires_at bigint, checkpoint bytea, isolated boolean, {declared_stored_columns}
) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _limits boolean[];      -- of lock_limits
  _limited boolean;
  _keyed text[];          -- the queues of which limit keys are checked; NULL: none
  _ended integer;         -- leases that end_expired ended
  _ended_queues text[];   -- of end_expired
  _ended_domains text[];
  _ended_offsets bigint[];
  _dead text[];
  _arrived_queues text[];
  _arrived_domains text[];
  _passing_queues text[]; -- of the domains whose gap is passed
  _passing_domains text[];
  _lane_queues text[];
  _lane_types text[];
  _lane_priorities integer[];
  _lane_isolated boolean[];
  _lane_ends boolean[];   -- whether the answer ends at the first job of the lane
  _lane_heads bigint[];   -- a lane is read from its head on: entries before it are of taken jobs that wait for vacuum
  _lane_seqs bigint[];    -- of the heads
  _first integer := 1;    -- _first.._last: the lanes of the current priority from which jobs are taken
  _last integer;
  _next_lane integer;     -- the first lane of the next priority; _last + 1.._next_lane - 1: lanes at which the answer ends
  _end integer;           -- the lane with the job at which the answer ends; NULL: it does not end in this priority
  _end_at bigint;         -- available_at and seq of that job: only jobs before it are taken
  _end_seq bigint;
  _lane integer;
  _share integer;
  _shares integer[];      -- how many jobs are taken from each lane of the current priority
  _depth integer;         -- how many jobs of each lane are read to compute the shares
  _taken tid[] := '{}';
  _sources integer := 0;  -- how many lanes the jobs were taken from
  _missing integer;
  _is_prefetched boolean := _prefetch;
  _next tid;              -- the job at which the answer ends, if it is not taken
  _round integer := 0;    -- how often the keys of the jobs were checked
  _checked record;
  _parked integer := 0;
  _key_queues text[];     -- the keys that were checked
  _keys text[];
BEGIN
  -- 1. End expired leases. The probe avoids a call that nearly always finds nothing.
  IF EXISTS (SELECT FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
               SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight'
                  AND j.check_at <= _now ORDER BY j.check_at LIMIT 1) AS due) THEN
    SELECT e.ended, e.queues, e.domains, e.offsets, e.dead
      INTO _ended, _ended_queues, _ended_domains, _ended_offsets, _dead
      FROM end_expired(_space, _queues, NULL, 1000, _now) AS e;
    IF _reports_expired AND _ended > 0 THEN
      fence := pg_current_xact_id()::text::bigint;
      RETURN NEXT;
    END IF;
  END IF;

  -- 2. Give turns in domains where jobs have ended or arrived, or whose gap has lasted long enough: all in one call, which
  -- locks the domains in order.
  IF EXISTS (SELECT FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
               (SELECT FROM arrivals AS a WHERE a.space = _space AND a.queue = q.queue LIMIT 1)
               UNION ALL
               (SELECT FROM domains AS d WHERE d.space = _space AND d.queue = q.queue AND d.pass_at <= _now LIMIT 1)
             ) AS changed) THEN
    WITH removed AS (
      DELETE FROM arrivals AS a
       WHERE a.ctid = ANY (ARRAY(SELECT a.ctid FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
                                   SELECT a.ctid FROM arrivals AS a WHERE a.space = _space AND a.queue = q.queue
                                    LIMIT 10000 FOR UPDATE SKIP LOCKED) AS a))
      RETURNING a.queue, a.domain)
    SELECT array_agg(r.queue), array_agg(r.domain) INTO _arrived_queues, _arrived_domains
      FROM (SELECT DISTINCT queue, domain FROM removed) AS r;
    SELECT array_agg(q.queue), array_agg(d.domain) INTO _passing_queues, _passing_domains
      FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
        SELECT d.domain FROM domains AS d WHERE d.space = _space AND d.queue = q.queue AND d.pass_at <= _now
         ORDER BY d.pass_at LIMIT 1000) AS d;
  END IF;
  IF _ended_domains IS NOT NULL OR _arrived_domains IS NOT NULL OR _passing_domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _ended_queues || _arrived_queues || _passing_queues,
                       _ended_domains || _arrived_domains || _passing_domains, _ended_offsets, _dead, false);
  END IF;

  _limits := lock_limits(_space, _queues);
  _limited := coalesce(_limits[1], false);
  IF _limits[2] THEN
    -- A queue that has become keyed since lock_limits may be locked by another reserve: it is keyed for the next one.
    SELECT array_agg(l.queue) INTO _keyed
      FROM (SELECT s.queue FROM settings AS s
             WHERE s.space = _space AND s.queue = ANY (_queues) AND s.type = '' AND s.keyed FOR UPDATE SKIP LOCKED) AS l;
  END IF;
  _now := effective_now(_caller_now);  -- the waits for locks are over
  IF _keyed IS NOT NULL THEN
    PERFORM open_keys(_space, _now, _keyed);
  END IF;

  LOOP  -- once, unless jobs of full keys are in the way
    -- 3. Find the lanes with due jobs, highest priority first.
    WITH RECURSIVE requested (queue, type) AS (
      SELECT q.queue, t.type FROM unnest(_queues) AS q (queue)
       CROSS JOIN unnest(coalesce(_types, ARRAY[NULL])) AS t (type)
    ), lanes (queue, requested_type, type, priority, isolated, head, seq) AS (
      SELECT a.queue, a.type, h.*
        FROM requested AS a CROSS JOIN LATERAL (
          (SELECT j.type, j.priority, j.isolated, j.available_at, j.seq FROM jobs AS j
            WHERE a.type IS NULL AND j.space = _space AND j.queue = a.queue AND j.state = 'ready' AND j.turn
            ORDER BY j.type, j.priority, j.isolated, j.available_at, j.seq LIMIT 1)
          UNION ALL
          (SELECT j.type, j.priority, j.isolated, j.available_at, j.seq FROM jobs AS j
            WHERE a.type IS NOT NULL AND j.space = _space AND j.queue = a.queue AND j.type = a.type
              AND j.state = 'ready' AND j.turn
            ORDER BY j.priority, j.isolated, j.available_at, j.seq LIMIT 1)) AS h
      UNION ALL
      SELECT l.queue, l.requested_type, h.*
        FROM lanes AS l CROSS JOIN LATERAL (
          (SELECT j.type, j.priority, j.isolated, j.available_at, j.seq FROM jobs AS j
            WHERE l.requested_type IS NULL AND j.space = _space AND j.queue = l.queue
              AND (j.type, j.priority, j.isolated) > (l.type, l.priority, l.isolated) AND j.state = 'ready' AND j.turn
            ORDER BY j.type, j.priority, j.isolated, j.available_at, j.seq LIMIT 1)
          UNION ALL
          (SELECT j.type, j.priority, j.isolated, j.available_at, j.seq FROM jobs AS j
            WHERE l.requested_type IS NOT NULL AND j.space = _space AND j.queue = l.queue AND j.type = l.type
              AND (j.priority, j.isolated) > (l.priority, l.isolated) AND j.state = 'ready' AND j.turn
            ORDER BY j.priority, j.isolated, j.available_at, j.seq LIMIT 1)) AS h
    )
    SELECT array_agg(d.queue), array_agg(d.type), array_agg(d.priority), array_agg(d.isolated), array_agg(d.ends),
           array_agg(d.head), array_agg(d.seq)
      INTO _lane_queues, _lane_types, _lane_priorities, _lane_isolated, _lane_ends, _lane_heads, _lane_seqs
      FROM (SELECT l.*, l.isolated AND _isolation IN ('alone', 'stop') AS ends FROM lanes AS l
             WHERE l.head <= _now AND NOT (l.isolated AND _isolation = 'skip')
             ORDER BY l.priority DESC, ends, l.head, l.seq) AS d;

    -- 4. Priority by priority: share what is missing among the lanes, then lock and take the jobs.
    WHILE _first <= cardinality(_lane_priorities) AND cardinality(_taken) < _limit LOOP
      _last := _first - 1;
      WHILE _lane_priorities[_last + 1] = _lane_priorities[_first] AND NOT _lane_ends[_last + 1] LOOP
        _last := _last + 1;
      END LOOP;
      _next_lane := _last + 1;
      WHILE _lane_priorities[_next_lane] = _lane_priorities[_first] LOOP
        _next_lane := _next_lane + 1;
      END LOOP;
      _missing := _limit - cardinality(_taken);
      _end := CASE WHEN _next_lane > _last + 1 THEN _last + 1 END;  -- the first head of them

      IF _limited THEN
        -- A share of -1 marks the lane at which the answer ends.
        _shares := ARRAY(
          WITH capacity AS MATERIALIZED (
            SELECT c.queue, c.type, c.free - (SELECT count(*) FROM unnest(_taken) AS t (job_ctid) JOIN jobs AS j
                                                  ON j.ctid = t.job_ctid
                                               WHERE j.queue = c.queue AND c.type IN ('', j.type)) AS free
              FROM free_capacity(_space, _queues, _now) AS c
          ), waiting AS (
            SELECT lane.number, lane.queue, lane.ends, h.available_at, h.seq,
                   row_number() OVER (PARTITION BY lane.queue, lane.type ORDER BY h.available_at, h.seq) AS in_type,
                   coalesce((SELECT c.free FROM capacity AS c WHERE c.queue = lane.queue AND c.type = lane.type), _limit)
                     AS type_free
              FROM unnest(_lane_queues[_first:_next_lane - 1], _lane_types[_first:_next_lane - 1],
                          _lane_isolated[_first:_next_lane - 1], _lane_ends[_first:_next_lane - 1], _lane_heads[_first:_next_lane - 1])
                   WITH ORDINALITY AS lane (queue, type, isolated, ends, head, number)
             CROSS JOIN LATERAL (SELECT j.available_at, j.seq FROM jobs AS j
                                  WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type
                                    AND j.priority = _lane_priorities[_first] AND j.isolated = lane.isolated
                                    AND j.state = 'ready' AND j.turn AND j.available_at BETWEEN lane.head AND _now
                                  ORDER BY j.available_at, j.seq LIMIT CASE WHEN lane.ends THEN 1 ELSE _missing END) AS h
          ), fitting AS (
            SELECT w.number, w.ends, w.available_at, w.seq,
                   row_number() OVER (PARTITION BY w.queue ORDER BY w.available_at, w.seq) AS in_queue,
                   coalesce((SELECT c.free FROM capacity AS c WHERE c.queue = w.queue AND c.type = ''), _limit)
                     AS queue_free
              FROM waiting AS w WHERE w.in_type <= w.type_free
          ), next AS (
            SELECT f.number, f.ends, row_number() OVER in_order AS position, bool_or(f.ends) OVER in_order AS has_ended
              FROM fitting AS f WHERE f.in_queue <= f.queue_free
            WINDOW in_order AS (ORDER BY f.available_at, f.seq)
          )
          SELECT CASE WHEN lane.number = (SELECT n.number FROM next AS n WHERE n.ends ORDER BY n.position LIMIT 1) THEN -1
                      ELSE (SELECT count(*) FROM next AS n
                             WHERE n.number = lane.number AND n.position <= _missing AND NOT n.has_ended) END::integer
            FROM generate_series(1, _next_lane - _first) AS lane (number) ORDER BY lane.number);
        _end := _first - 1 + array_position(_shares, -1);
      ELSIF _last <= _first THEN
        _shares := ARRAY[_missing];
      END IF;
      _end_at := coalesce(_lane_heads[_end], _now);
      _end_seq := coalesce(_lane_seqs[_end], 9223372036854775807);

      IF NOT _limited AND _first < _last THEN
        -- Of many lanes, few have many jobs: read a few jobs of each lane, and more while one may have more.
        _depth := greatest(4, 4 * _missing / (_last - _first + 1));
        LOOP
          _depth := least(_depth, _missing);
          _shares := ARRAY(
            WITH next AS MATERIALIZED (
              SELECT lane.number
                FROM unnest(_lane_queues[_first:_last], _lane_types[_first:_last], _lane_isolated[_first:_last],
                            _lane_heads[_first:_last])
                     WITH ORDINALITY AS lane (queue, type, isolated, head, number)
               CROSS JOIN LATERAL (SELECT j.available_at, j.seq FROM jobs AS j
                                    WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type
                                      AND j.priority = _lane_priorities[_first] AND j.isolated = lane.isolated
                                      AND j.state = 'ready' AND j.turn AND j.available_at >= lane.head
                                      AND (j.available_at, j.seq) < (_end_at, _end_seq)
                                    ORDER BY j.available_at, j.seq LIMIT _depth) AS h
               ORDER BY h.available_at, h.seq LIMIT _missing
            ), counted AS (
              SELECT n.number, count(*) AS share FROM next AS n GROUP BY n.number
            )
            SELECT coalesce((SELECT c.share FROM counted AS c WHERE c.number = lane.number), 0)::integer
              FROM generate_series(1, _last - _first + 1) AS lane (number) ORDER BY lane.number);
          EXIT WHEN _depth >= _missing OR NOT (_depth = ANY (_shares));
          _depth := _depth * 4;
        END LOOP;
      END IF;

      FOR _lane IN _first .. _last LOOP
        _share := _shares[_lane - _first + 1];
        IF _share > 0 THEN
          _sources := _sources + 1;
          _taken := _taken || ARRAY(
            SELECT j.ctid FROM jobs AS j
             WHERE j.space = _space AND j.queue = _lane_queues[_lane] AND j.type = _lane_types[_lane]
               AND j.priority = _lane_priorities[_lane] AND j.isolated = _lane_isolated[_lane]
               AND j.state = 'ready' AND j.turn
               AND j.available_at >= _lane_heads[_lane] AND (j.available_at, j.seq) < (_end_at, _end_seq)
             ORDER BY j.available_at, j.seq LIMIT _share FOR UPDATE SKIP LOCKED);
        END IF;
      END LOOP;

      -- Other sessions took jobs that were counted: take any other due job of these lanes.
      IF NOT _limited AND _first < _last AND cardinality(_taken) < _limit
         AND _missing <= (SELECT sum(s) FROM unnest(_shares) AS s) THEN
        FOR _lane IN _first .. _last LOOP
          EXIT WHEN cardinality(_taken) >= _limit;
          _missing := _limit - cardinality(_taken);
          _sources := _sources + 1;
          _taken := _taken || ARRAY(
            SELECT j.ctid FROM jobs AS j
             WHERE j.space = _space AND j.queue = _lane_queues[_lane] AND j.type = _lane_types[_lane]
               AND j.priority = _lane_priorities[_lane] AND j.isolated = _lane_isolated[_lane]
               AND j.state = 'ready' AND j.turn
               AND j.available_at >= _lane_heads[_lane] AND (j.available_at, j.seq) < (_end_at, _end_seq)
               AND j.ctid <> ALL (_taken)
             ORDER BY j.available_at, j.seq LIMIT _missing FOR UPDATE SKIP LOCKED);
        END LOOP;
      END IF;

      IF _end IS NOT NULL THEN
        IF _isolation = 'alone' AND _taken = '{}' THEN
          _is_prefetched := false;
          _taken := ARRAY(
            SELECT j.ctid FROM jobs AS j
             WHERE j.space = _space AND j.queue = _lane_queues[_end] AND j.type = _lane_types[_end]
               AND j.priority = _lane_priorities[_end] AND j.isolated AND j.state = 'ready' AND j.turn
               AND j.available_at BETWEEN _lane_heads[_end] AND _now
             ORDER BY j.available_at, j.seq LIMIT 1 FOR UPDATE SKIP LOCKED);
        ELSIF _keyed IS NOT NULL THEN
          _next := (
            SELECT j.ctid FROM jobs AS j
             WHERE j.space = _space AND j.queue = _lane_queues[_end] AND j.type = _lane_types[_end]
               AND j.priority = _lane_priorities[_end] AND j.isolated AND j.state = 'ready' AND j.turn
               AND j.available_at = _lane_heads[_end] AND j.seq = _lane_seqs[_end]);
        END IF;
        EXIT;
      END IF;
      _first := _next_lane;
    END LOOP;

    -- 5. Check the keys of the jobs. Jobs of full keys are parked, and the others are picked again.
    EXIT WHEN _keyed IS NULL OR (_taken = '{}' AND _next IS NULL);
    _round := _round + 1;
    IF _round = 1 THEN
      SELECT p.* INTO _checked FROM park_full_keys(_space, _now, _keyed, _taken, _next, NULL, NULL, NULL, NULL, NULL) AS p;
    ELSE
      SELECT p.* INTO _checked FROM park_full_keys(_space, _now, _keyed, _taken, _next, _lane_queues, _lane_types,
                                                   _lane_priorities, _lane_isolated, _lane_heads) AS p;
    END IF;
    _key_queues := _key_queues || _checked.key_queues;
    _keys := _keys || _checked.keys;
    _parked := _parked + _checked.parked;
    IF _checked.parked = 0 OR _parked >= 10000 OR _round = 8 THEN
      _taken := _checked.allowed;
      EXIT;
    END IF;
    _taken := '{}';
    _is_prefetched := _prefetch;
    _next := NULL;
    _first := 1;
    _sources := 0;
  END LOOP;

  IF _taken = '{}' THEN
    IF _keyed IS NOT NULL THEN
      PERFORM unpark_jobs(_space, _now, _key_queues, _keys, false);
    END IF;
    RETURN;
  END IF;

  -- 6. Put the jobs of several lanes in the order of law L10, cut them at the byte budget, and take them out of the rate
  -- buckets. octet_length does not read a payload that is stored out of line. The running sum takes a tenth of the time
  -- of a whole reserve, so it is computed only if the jobs together are too large.
  IF _sources > 1 THEN
    _taken := ARRAY(SELECT j.ctid FROM jobs AS j WHERE j.ctid = ANY (_taken)
                     ORDER BY j.priority DESC, j.available_at, j.seq);
  END IF;

  IF _max_bytes < (SELECT sum(octet_length(coalesce(j.payload, load_payload(j.payload_seq)))) FROM jobs AS j WHERE j.ctid = ANY (_taken)) THEN
    _taken := fit_bytes(_taken, _max_bytes);
  END IF;

  IF _limited THEN
    PERFORM spend_rates(_space, _now, _queues, _taken);
  END IF;

  IF _keyed IS NOT NULL THEN
    PERFORM spend_keys(_space, _now, _keyed, _taken);
  END IF;

  -- 7. Lease the jobs. A lease begins when its row is locked: an earlier lease of the job cannot end after that.
  _now := effective_now(_caller_now);
  RETURN QUERY
  UPDATE jobs AS j
     SET state = 'inflight', attempts = least(j.attempts, 2147483646) + 1, fence = t.fence,
         token = t.fence || '.' || encode(substr(_token_bytes, t.item::integer * 16 - 15, 16), 'hex'),
         expires_at = _now + _lease_for, check_at = _now + _lease_for, reserved_at = _now, worker = _worker,
         started_at = NULL, prefetched = _is_prefetched
    FROM (SELECT u.job_ctid, u.item, nextval('counter') AS fence
            FROM unnest(_taken) WITH ORDINALITY AS u (job_ctid, item)) AS t
   WHERE j.ctid = t.job_ctid
  RETURNING j.token, j.fence, j.expires_at,
            CASE WHEN j.noted THEN (SELECT n.checkpoint FROM notes AS n WHERE n.space = _space AND n.job_id = j.id) END,
            j.isolated, {j.leased_columns};
  IF _keyed IS NOT NULL THEN
    PERFORM unpark_jobs(_space, _now, _key_queues, _keys, false);
  END IF;
END $$;


-- name: next_due
-- Return how many microseconds remain until a job of these queues can run or a lease of theirs can have expired: 0
-- or less is now; NULL if nothing can happen without another call. Driver.wait sleeps for that long.
--
-- Locks: none. Index: jobs_lane (one head per lane), jobs_leased, arrivals_queue, domains_pass, key_changes_queue,
-- limit_keys_wake.
-- Shape: the lanes are found by skipping from one to the next in the index, as in reserve.
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


-- name: wake_keys
-- After the limits of each key of a queue were replaced: end the holds of its keys, and let the next reserve judge all of
-- them. The next trim_expired looks at all of them, too.
--
-- Locks: the rows of the keys; the caller has locked the settings of the queue. Index: the primary key of limit_keys,
-- key_changes_queue.
CREATE OR REPLACE FUNCTION wake_keys(_space text, _queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE limit_keys AS l SET held_until = NULL, wake_at = CASE WHEN l.parked THEN 0 END, idle_at = 0
   WHERE l.space = _space AND l.queue = _queue;
  UPDATE key_changes AS c SET held_until = NULL
   WHERE c.space = _space AND c.queue = _queue AND c.held_until IS NOT NULL;
END $$;
