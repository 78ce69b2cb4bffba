-- Why a settlement that ended nothing is refused, or that it only repeats the last one (law L6, then L5).
CREATE FUNCTION refused_1(
  _space text, _now bigint, _items integer[], _ids text[], _tokens text[], _verbs text[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT * FROM (
    SELECT a.item,
           CASE WHEN j.id IS NULL AND e.last_verb = a.verb AND e.last_token = a.token THEN NULL
                WHEN j.state = 'ready' AND j.last_verb = a.verb AND j.last_token = a.token THEN NULL
                WHEN j.id IS NULL OR j.state <> 'inflight' THEN 'not inflight'
                WHEN j.token <> a.token THEN 'mismatch'
                ELSE 'expired' END AS code,
           coalesce(j.state, e.state), j.expires_at, _now, NULL::text, NULL::text
      FROM unnest(_items, _ids, _tokens, _verbs) AS a (item, id, token, verb)
      LEFT JOIN jobs AS j ON j.space = _space AND j.id = a.id
      LEFT JOIN ended AS e ON e.space = _space AND e.id = a.id AND j.id IS NULL) AS judged
   WHERE judged.code IS NOT NULL;
END $$;

-- Plain acks, each of another job: by far the most common batch, in one statement that needs no decision. Done jobs move
-- to ended, with a ledger row each; answers only for what was refused. Relies on the primary key of jobs; the token alone
-- says that a job is in flight (see 006_extend).
CREATE FUNCTION ack_1(
  _space text, _given bigint, _ids text[], _tokens text[], _started bigint[], _results bytea[], _details text[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint := instant_1(_given);
  _items integer[];
  _queues text[];
  _domains text[];
BEGIN
  WITH gone AS (
    DELETE FROM jobs AS j
     USING unnest(_ids, _tokens, _started, _results, _details) WITH ORDINALITY
           AS a (id, token, started_at, result, detail, item)
     WHERE j.space = _space AND j.id = a.id AND j.token = a.token AND j.expires_at > _now
    RETURNING j.*, a.item, a.started_at AS began_at, a.result, coalesce(a.detail, '') AS detail
  ), kept AS (
    INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at,
                       attempts, max_attempts, crashes, max_crashes, cancel_requested, noted, last_verb, last_token,
                       created_at, requested_run_at, timeout, idempotency_key, domain, "offset", name, meta, webhook,
                       signature, last_error, failed_at, result, payload)
    SELECT g.seq, g.space, g.id, g.queue, g.type, g.priority, 'done', g.available_at, g.enqueued_at, _now, g.run_at,
           g.attempts, g.max_attempts, g.crashes, g.max_crashes, g.cancel_requested, g.noted, 'ack', g.token,
           g.created_at, g.requested_run_at, g.timeout, g.idempotency_key, g.domain, g."offset", g.name, g.meta,
           g.webhook, g.signature, g.last_error, g.failed_at, g.result, g.payload
      FROM gone AS g
  ), told AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at, available_at,
                        reserved_at, started_at, ended_at, ending, state, detail, error)
    SELECT g.space, g.id, g.type, g.queue, g.domain, g."offset", g.attempts, g.fence, g.worker, g.enqueued_at,
           g.available_at, g.reserved_at, coalesce(g.began_at, g.started_at), _now, 'acked', 'done', g.detail, ''
      FROM gone AS g ORDER BY g.item
  )
  SELECT array_agg(g.item), array_agg(g.queue) FILTER (WHERE g.domain IS NOT NULL),
         array_agg(g.domain) FILTER (WHERE g.domain IS NOT NULL)
    INTO _items, _queues, _domains FROM gone AS g;

  IF _domains IS NOT NULL THEN
    PERFORM pass_turns_1(_space, _queues, _domains);
  END IF;

  IF coalesce(cardinality(_items), 0) < cardinality(_ids) THEN
    RETURN QUERY
    WITH missing AS (
      SELECT a.item::integer AS item, a.id, a.token FROM unnest(_ids, _tokens) WITH ORDINALITY AS a (id, token, item)
       WHERE a.item NOT IN (SELECT unnest(coalesce(_items, '{}'))))
    SELECT r.* FROM (SELECT array_agg(m.item) AS items, array_agg(m.id) AS ids, array_agg(m.token) AS tokens,
                            array_agg('ack'::text) AS verbs FROM missing AS m) AS m
     CROSS JOIN LATERAL refused_1(_space, _now, m.items, m.ids, m.tokens, m.verbs) AS r;
  END IF;
END $$;

-- What a valid settlement makes of a job: decide.settled, in SQL.
CREATE FUNCTION settled_1(
  _item integer, _place tid, j jobs, _now bigint, _verb text, _started bigint, _detail text, _result bytea,
  _delay bigint, _run_at bigint, _error text, _crashed boolean, _reason text, _budget bigint
) RETURNS outcome_1 LANGUAGE plpgsql STABLE AS $$
DECLARE
  o outcome_1;
BEGIN
  o.item := _item;
  o.place := _place;
  o.verb := _verb;
  o.started_at := _started;
  o.attempts := j.attempts;
  o.crashes := j.crashes;
  o.run_at := j.run_at;
  o.available_at := j.available_at;
  o.last_error := j.last_error;
  o.failed_at := j.failed_at;
  o.released_for := 0;
  o.detail := _detail;
  o.error := '';

  IF _verb = 'ack' THEN
    o.ending := 'acked';
    o.state := 'done';
    o.result := _result;

  ELSIF j.cancel_requested THEN
    o.ending := 'cancelled';
    o.state := 'cancelled';
    IF _verb = 'release' THEN
      o.attempts := j.attempts - 1;
    ELSE
      o.error := _error;
    END IF;
    IF o.error <> '' THEN
      o.last_error := o.error;
      o.failed_at := _now;
    END IF;
    IF _detail = '' THEN
      o.detail := 'cancelled at ' || _verb;
    END IF;

  ELSIF _verb = 'retry' THEN
    o.ending := 'retried';
    o.crashes := CASE WHEN _crashed THEN j.crashes + 1 ELSE 0 END;
    o.last_error := _error;
    o.failed_at := _now;
    o.error := _error;
    IF j.attempts >= j.max_attempts THEN
      o.dead_reason := 'attempts exhausted';
    ELSIF o.crashes >= j.max_crashes THEN
      o.dead_reason := 'poison';
    END IF;
    IF o.dead_reason IS NULL THEN
      o.state := 'ready';
      o.run_at := coalesce(_run_at, CASE WHEN _delay > 0 THEN _now + _delay END);
      o.available_at := coalesce(o.run_at, _now);
    ELSE
      o.state := 'dead';
      o.dead_at := _now;
    END IF;

  ELSIF _verb = 'fail' THEN
    o.ending := 'failed';
    o.state := 'dead';
    o.last_error := _error;
    o.failed_at := _now;
    o.error := _error;
    o.dead_reason := _reason;
    o.dead_at := _now;

  ELSE
    o.ending := 'released';
    o.attempts := j.attempts - 1;
    o.released_for := j.released_for + _delay + greatest(0, _now - j.reserved_at);
    IF _delay > 0 THEN
      o.run_at := _now + _delay;
      o.available_at := _now + _delay;
    END IF;
    IF o.released_for > _budget THEN
      o.state := 'dead';
      o.dead_reason := 'released too long';
      o.dead_at := _now;
    ELSE
      o.state := 'ready';
    END IF;
  END IF;
  RETURN o;
END $$;

-- Registry writes that are made all together or not at all; gives the first that finds another version.
CREATE FUNCTION write_together_1(
  _space text, _now bigint, _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[],
  OUT kind text, OUT key text
) LANGUAGE plpgsql AS $$
BEGIN
  BEGIN
    FOR _place IN 1 .. cardinality(_kinds) LOOP
      IF (write_one_1(_space, _now, _kinds[_place], _keys[_place], _values[_place], _versions[_place],
                      _ttls[_place])).version IS NULL THEN
        kind := _kinds[_place];
        key := _keys[_place];
        RAISE SQLSTATE 'HF001';
      END IF;
    END LOOP;
  EXCEPTION WHEN SQLSTATE 'HF001' THEN
    NULL;  -- what was written before it is undone; variables keep their values
  END;
END $$;

-- End leases by any mix of verbs; answers only for what was refused. A run is a part of the batch in which every job
-- is named once and which carries registry writes only if it is a single item: inside a run order does not matter,
-- and runs follow one another. _runs holds their first items. Relies on the primary keys of jobs and ended.
CREATE FUNCTION settle_1(
  _space text, _given bigint, _runs integer[], _ids text[], _tokens text[], _verbs text[], _started bigint[],
  _details text[], _results bytea[], _delays bigint[], _run_at bigint[], _errors text[], _crashed boolean[],
  _reasons text[], _budgets bigint[], _writers integer[], _kinds text[], _keys text[], _values bytea[],
  _versions bigint[], _ttls bigint[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
  _run integer;
  _first integer;
  _last integer;
  _outcomes outcome_1[];
  _valid integer[];
  _refused record;
BEGIN
  PERFORM FROM jobs AS j WHERE j.space = _space AND j.id = ANY (_ids) ORDER BY j.id FOR UPDATE;
  _now := instant_1(_given);
  FOR _run IN 1 .. cardinality(_runs) LOOP
    _first := _runs[_run];
    _last := coalesce(_runs[_run + 1] - 1, cardinality(_ids));

    SELECT array_agg(settled_1(a.item, j.ctid, j, _now, a.verb, a.started, a.detail, a.result, a.delay, a.run_at,
                               a.error, a.crashed, a.reason, a.budget) ORDER BY a.item), array_agg(a.item)
      INTO _outcomes, _valid
      FROM (SELECT (i.item + _first - 1)::integer AS item, i.id, i.token, i.verb, i.started, coalesce(i.detail, '') AS detail,
                   i.result, coalesce(i.delay, 0) AS delay, i.run_at, coalesce(i.error, '') AS error,
                   coalesce(i.crashed, false) AS crashed, i.reason, i.budget
              FROM unnest(_ids[_first:_last], _tokens[_first:_last], _verbs[_first:_last], _started[_first:_last],
                          _details[_first:_last], _results[_first:_last], _delays[_first:_last],
                          _run_at[_first:_last], _errors[_first:_last], _crashed[_first:_last],
                          _reasons[_first:_last], _budgets[_first:_last]) WITH ORDINALITY
                   AS i (id, token, verb, started, detail, result, delay, run_at, error, crashed, reason, budget, item)
           ) AS a (item, id, token, verb, started, detail, result, delay, run_at, error, crashed, reason, budget)
      JOIN jobs AS j ON j.space = _space AND j.id = a.id
     WHERE j.token = a.token AND j.expires_at > _now;

    RETURN QUERY
    SELECT r.* FROM (SELECT array_agg(i.item) AS items, array_agg(_ids[i.item]) AS ids,
                            array_agg(_tokens[i.item]) AS tokens, array_agg(_verbs[i.item]) AS verbs
                       FROM generate_series(_first, _last) AS i (item)
                      WHERE i.item NOT IN (SELECT unnest(coalesce(_valid, '{}')))) AS m
     CROSS JOIN LATERAL refused_1(_space, _now, m.items, m.ids, m.tokens, m.verbs) AS r
     WHERE m.items IS NOT NULL;

    IF _valid IS NOT NULL AND _first = ANY (_writers) THEN
      SELECT w.* INTO _refused
        FROM (SELECT array_agg(w.kind ORDER BY w.place) AS kinds, array_agg(w.key ORDER BY w.place) AS keys,
                     array_agg(w.value ORDER BY w.place) AS contents, array_agg(w.version ORDER BY w.place) AS versions,
                     array_agg(w.ttl ORDER BY w.place) AS ttls
                FROM unnest(_writers, _kinds, _keys, _values, _versions, _ttls) WITH ORDINALITY
                     AS w (item, kind, key, value, version, ttl, place)
               WHERE w.item = _first) AS asked
       CROSS JOIN LATERAL write_together_1(_space, _now, asked.kinds, asked.keys, asked.contents, asked.versions,
                                           asked.ttls) AS w;
      IF _refused.kind IS NOT NULL THEN
        item := _first;
        code := 'write refused';
        state := NULL;
        expires_at := NULL;
        now := _now;
        kind := _refused.kind;
        key := _refused.key;
        RETURN NEXT;
        _outcomes := NULL;
      END IF;
    END IF;

    IF _outcomes IS NOT NULL THEN
      PERFORM apply_1(_space, _now, _outcomes);
    END IF;
  END LOOP;
END $$;
