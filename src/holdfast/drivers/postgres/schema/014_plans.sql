-- The same functions as before, with plans that are right for a full table also where they were made for an empty one. A
-- session keeps its plans until the next ANALYZE, and on an empty table without statistics the planner thinks that one row
-- is in a space: it reads the space and compares it with the batch, which is millions of rows later on.
--
-- So what a batch is looked up by comes from inside a subquery with OFFSET 0, which the planner must leave alone, the
-- space as well: then a table can be reached by its keys only, and that needs the batch first.

-- Tell whoever listens that a job has come; see 003_enqueue. NOT EXISTS would be turned into a join.
CREATE OR REPLACE FUNCTION hint_1(
  _space text, _channel text, _alone boolean, _now bigint, _queues text[], _types text[], _priorities integer[],
  _run_at bigint[]
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s'
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF EXISTS (
    SELECT FROM (SELECT DISTINCT a.queue, a.type, coalesce(a.priority, 0) AS priority
                   FROM unnest(_queues, _types, _priorities, _run_at) AS a (queue, type, priority, run_at)
                  WHERE a.run_at IS NULL OR a.run_at <= _now) AS lane
     CROSS JOIN LATERAL (
       SELECT count(*) AS due FROM (
         SELECT FROM jobs AS j
          WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type AND j.priority = lane.priority
            AND j.state = 'ready' AND j.turn AND j.available_at <= _now
          LIMIT 1) AS first) AS head
     WHERE head.due = 0)
     AND (NOT _alone OR pg_try_advisory_xact_lock(1212106567, hashtext(_space)))
  THEN
    PERFORM pg_notify(_channel, _space);
  END IF;
END $$;


-- See 006_extend.
CREATE OR REPLACE FUNCTION extend_1(
  _space text, _given bigint, _lease_for bigint, _ids text[], _tokens text[], _started bigint[], _progress bytea[],
  _checkpoints bytea[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, cancel_requested boolean, now bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
BEGIN
  PERFORM FROM jobs AS j WHERE j.space = _space AND j.id = ANY (_ids) ORDER BY j.id FOR NO KEY UPDATE;
  _now := instant_1(_given);
  RETURN QUERY
  SELECT a.item::integer,
         CASE WHEN j.id IS NULL OR j.state <> 'inflight' THEN 'not inflight'
              WHEN j.token <> a.token THEN 'mismatch'
              WHEN j.expires_at <= _now THEN 'expired'
              ELSE 'ok' END,
         coalesce(j.state, e.state),
         CASE WHEN j.state = 'inflight' AND j.token = a.token AND j.expires_at > _now THEN _now + _lease_for
              ELSE j.expires_at END,
         j.cancel_requested, _now
    FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens) WITH ORDINALITY AS u (id, token, item) OFFSET 0) AS a
    LEFT JOIN jobs AS j ON j.space = a.space AND j.id = a.id
    LEFT JOIN ended AS e ON e.space = a.space AND e.id = a.id AND j.id IS NULL
   ORDER BY a.item;

  IF _progress IS NOT NULL OR _checkpoints IS NOT NULL THEN
    INSERT INTO notes AS n (space, job_id, progress, checkpoint)
    SELECT DISTINCT ON (a.id) _space, a.id, a.progress, a.checkpoint
      FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens, _progress, _checkpoints) WITH ORDINALITY
                   AS u (id, token, progress, checkpoint, item) OFFSET 0) AS a
      JOIN jobs AS j ON j.space = a.space AND j.id = a.id
     WHERE j.token = a.token AND j.expires_at > _now
       AND (a.progress IS NOT NULL OR a.checkpoint IS NOT NULL)
     ORDER BY a.id, a.item
    ON CONFLICT (space, job_id) DO UPDATE
       SET progress = coalesce(excluded.progress, n.progress), checkpoint = coalesce(excluded.checkpoint, n.checkpoint);
  END IF;

  UPDATE jobs AS j
     SET expires_at = _now + _lease_for, check_at = least(j.check_at, _now + _lease_for),
         started_at = coalesce(a.started_at, j.started_at),
         noted = j.noted OR a.progress IS NOT NULL OR a.checkpoint IS NOT NULL
    FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens, _started, _progress, _checkpoints)
                 AS u (id, token, started_at, progress, checkpoint) OFFSET 0) AS a
   WHERE j.space = a.space AND j.id = a.id AND j.token = a.token AND j.expires_at > _now;
END $$;

-- See 007_settle.
CREATE OR REPLACE FUNCTION refused_1(
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
      FROM (SELECT _space AS space, u.* FROM unnest(_items, _ids, _tokens, _verbs) AS u (item, id, token, verb) OFFSET 0
           ) AS a
      LEFT JOIN jobs AS j ON j.space = a.space AND j.id = a.id
      LEFT JOIN ended AS e ON e.space = a.space AND e.id = a.id AND j.id IS NULL) AS judged
   WHERE judged.code IS NOT NULL;
END $$;

-- See 007_settle.
CREATE OR REPLACE FUNCTION settle_1(
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
      FROM (SELECT _space AS space, (i.item + _first - 1)::integer AS item, i.id, i.token, i.verb, i.started,
                   coalesce(i.detail, '') AS detail, i.result, coalesce(i.delay, 0) AS delay, i.run_at, coalesce(i.error, '') AS error,
                   coalesce(i.crashed, false) AS crashed, i.reason, i.budget
              FROM unnest(_ids[_first:_last], _tokens[_first:_last], _verbs[_first:_last], _started[_first:_last],
                          _details[_first:_last], _results[_first:_last], _delays[_first:_last],
                          _run_at[_first:_last], _errors[_first:_last], _crashed[_first:_last],
                          _reasons[_first:_last], _budgets[_first:_last]) WITH ORDINALITY
                   AS i (id, token, verb, started, detail, result, delay, run_at, error, crashed, reason, budget, item)
            OFFSET 0) AS a
      JOIN jobs AS j ON j.space = a.space AND j.id = a.id
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

-- See 009_tools.
CREATE OR REPLACE FUNCTION requeue_1(_space text, _given bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  _now bigint := instant_1(_given);
  _done text[];
BEGIN
  WITH gone AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item) OFFSET 0) AS a
     WHERE e.space = a.space AND e.id = a.id AND e.state IN ('dead', 'cancelled')
    RETURNING e.*, a.item
  ), told AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT g.space, g.id, g.type, g.queue, g.domain, g."offset", g.attempts, '', g.enqueued_at, g.available_at, _now,
           'requeued', 'ready', '', ''
      FROM gone AS g ORDER BY g.item
  ), arrived AS (
    INSERT INTO arrivals SELECT DISTINCT g.space, g.queue, g.domain FROM gone AS g WHERE g.domain IS NOT NULL
  ), made AS (
    INSERT INTO jobs (space, id, queue, type, priority, turn, available_at, enqueued_at, max_attempts, max_crashes,
                      noted, last_verb, last_token, created_at, requested_run_at, timeout, idempotency_key, domain,
                      "offset", name, meta, webhook, signature, last_error, failed_at, payload)
    SELECT g.space, g.id, g.queue, g.type, g.priority, g.domain IS NULL, _now, g.enqueued_at, g.max_attempts,
           g.max_crashes, g.noted, g.last_verb, g.last_token, g.created_at, g.requested_run_at, g.timeout,
           g.idempotency_key, g.domain, g."offset", g.name, g.meta, g.webhook, g.signature, g.last_error, g.failed_at,
           g.payload
      FROM gone AS g ORDER BY g.item
  )
  SELECT array_agg(g.id) INTO _done FROM gone AS g;
  RETURN coalesce(_done, '{}');
END $$;

-- See 009_tools.
CREATE OR REPLACE FUNCTION purge_1(_space text, _given bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  _now bigint := instant_1(_given);
  _done text[];
BEGIN
  WITH gone AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item) OFFSET 0) AS a
     WHERE e.space = a.space AND e.id = a.id
    RETURNING e.*, a.item
  ), told AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT g.space, g.id, g.type, g.queue, g.domain, g."offset", g.attempts, '', g.enqueued_at, g.available_at, _now,
           'purged', NULL, '', ''
      FROM gone AS g ORDER BY g.item
  ), unnoted AS (
    DELETE FROM notes AS n USING gone AS g WHERE g.noted AND n.space = _space AND n.job_id = g.id
  )
  SELECT array_agg(g.id) INTO _done FROM gone AS g;
  RETURN coalesce(_done, '{}');
END $$;

-- See 009_tools.
CREATE OR REPLACE FUNCTION cancel_1(_space text, _given bigint, _ids text[]) RETURNS TABLE (id text, state text) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
  _queues text[];
  _domains text[];
BEGIN
  PERFORM FROM jobs AS j WHERE j.space = _space AND j.id = ANY (_ids) ORDER BY j.id FOR UPDATE;
  _now := instant_1(_given);
  UPDATE jobs AS j SET cancel_requested = true
   WHERE j.space = _space AND j.id = ANY (_ids) AND j.token IS NOT NULL AND NOT j.cancel_requested;
  WITH gone AS (
    DELETE FROM jobs AS j
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item) OFFSET 0) AS a
     WHERE j.space = a.space AND j.id = a.id AND j.state = 'ready'
    RETURNING j.*, a.item
  ), told AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT g.space, g.id, g.type, g.queue, g.domain, g."offset", g.attempts, '', g.enqueued_at, g.available_at, _now,
           'cancelled', 'cancelled', '', ''
      FROM gone AS g ORDER BY g.item
  ), kept AS (
    INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at,
                       attempts, max_attempts, crashes, max_crashes, cancel_requested, noted, last_verb, last_token,
                       created_at, requested_run_at, timeout, idempotency_key, domain, "offset", name, meta, webhook,
                       signature, last_error, failed_at, payload)
    SELECT g.seq, g.space, g.id, g.queue, g.type, g.priority, 'cancelled', g.available_at, g.enqueued_at, _now,
           g.run_at, g.attempts, g.max_attempts, g.crashes, g.max_crashes, false, g.noted, g.last_verb, g.last_token,
           g.created_at, g.requested_run_at, g.timeout, g.idempotency_key, g.domain, g."offset", g.name, g.meta,
           g.webhook, g.signature, g.last_error, g.failed_at, g.payload
      FROM gone AS g
  )
  SELECT array_agg(g.queue), array_agg(g.domain) INTO _queues, _domains FROM gone AS g WHERE g.domain IS NOT NULL;
  IF _domains IS NOT NULL THEN
    PERFORM pass_turns_1(_space, _queues, _domains);
  END IF;
  RETURN QUERY
  SELECT j.id, j.state FROM jobs AS j WHERE j.space = _space AND j.id = ANY (_ids)
  UNION ALL
  SELECT e.id, e.state FROM ended AS e WHERE e.space = _space AND e.id = ANY (_ids);
END $$;

-- What is oldest stands first in an index: no plan may read everything to find it.
ALTER FUNCTION trim_1(text, bigint, bigint, bigint, integer) SET enable_bitmapscan = off;
ALTER FUNCTION trim_1(text, bigint, bigint, bigint, integer) SET enable_sort = off;
