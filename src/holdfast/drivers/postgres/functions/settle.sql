-- End leases.

-- name: ack
-- Acknowledge a batch of jobs, each named once, without registry writes: by far the most common settlement. The jobs
-- move to `ended` with one ledger row each. Return rows only for refused acks.
--
-- Locks: the rows of the jobs, sorted by id, then their domains. Index: the primary key of jobs.
-- Shape: one statement, no transitions. The condition names the token and not the state: only a job in flight has a
-- token, and on an empty table the planner would use a condition on the state to read the index of all leases.
-- Ledger numbers are drawn before the delete, in batch order; sorting the deleted rows instead took longer. See
-- README.md, Stable plans.
CREATE OR REPLACE FUNCTION ack(
  _space text, _caller_now bigint, _ids text[], _tokens text[], _started bigint[], _results bytea[], _details text[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _ended bigint;
  _seqs bigint[] := ARRAY(SELECT nextval('ledger_seq') FROM generate_series(1, cardinality(_ids)));
  _queues text[];
  _domains text[];
  _offsets bigint[];
  _key_queues text[];
  _keys text[];
BEGIN
  WITH removed AS (
    DELETE FROM jobs AS j
     USING (SELECT _space AS space, u.* FROM unnest(_ids, _tokens, _started, _results, _details) WITH ORDINALITY
                   AS u (id, token, started_at, result, detail, item) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id AND j.token = a.token AND j.expires_at > _now
    RETURNING j.*, a.item, a.started_at AS began_at, a.result, coalesce(a.detail, '') AS detail
  ), moved AS (
    INSERT INTO ended ({fixed_columns}, space, seq, state, available_at, enqueued_at, ended_at, run_at, attempts,
                       crashes, cancel_requested, noted, last_verb, last_token, last_error, failed_at, result)
    SELECT {r.fixed_columns}, r.space, r.seq, 'done', r.available_at, r.enqueued_at, _now, r.run_at, r.attempts,
           r.crashes, r.cancel_requested, r.noted, 'ack', r.token, r.last_error, r.failed_at, r.result
      FROM removed AS r
  ), recorded AS (
    INSERT INTO ledger (seq, space, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at,
                        available_at, reserved_at, started_at, ended_at, ending, state, detail, error)
    SELECT _seqs[r.item], r.space, r.id, r.type, r.queue, r.domain, r."offset", r.attempts, r.fence, r.worker,
           r.enqueued_at, r.available_at, r.reserved_at, coalesce(r.began_at, r.started_at), _now, 'acked', 'done',
           r.detail, ''
      FROM removed AS r
  )
  SELECT count(*), array_agg(r.queue) FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r.domain) FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r."offset") FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r.queue) FILTER (WHERE r.limit_key IS NOT NULL),
         array_agg(r.limit_key) FILTER (WHERE r.limit_key IS NOT NULL)
    INTO _ended, _queues, _domains, _offsets, _key_queues, _keys FROM removed AS r;

  IF _domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _queues, _domains, _offsets, NULL, true);
  END IF;
  IF _keys IS NOT NULL THEN
    PERFORM note_key_changes(_space, _key_queues, _keys, false);
  END IF;

  IF _ended < cardinality(_ids) THEN
    -- Check the whole batch: an ack that succeeded just now looks like a repeated one, which is not refused.
    RETURN QUERY
    SELECT r.* FROM (SELECT array_agg(i.item) AS items, array_agg('ack'::text) AS verbs
                       FROM generate_series(1, cardinality(_ids)) AS i (item)) AS a
     CROSS JOIN LATERAL refusals(_space, _now, a.items, _ids, _tokens, a.verbs) AS r;
  END IF;
END $$;


-- name: ack_with_writes
-- Acknowledge a batch of jobs, each named once, with registry changes, which name every entry once. An ack makes all its
-- changes, or is refused if the version of one differs. Return rows only for refused acks.
--
-- _writers has the item of each change. Locks: the rows of the jobs, sorted by id, then registry entries, then domains.
-- Index: the primary keys of jobs and registry. Shape: `ack` ends the leases, in less time than `settle` with its
-- transitions. For a refused item it gets a token that no lease has. See README.md, Stable plans.
CREATE OR REPLACE FUNCTION ack_with_writes(
  _space text, _caller_now bigint, _ids text[], _tokens text[], _started bigint[], _results bytea[], _details text[],
  _writers integer[], _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _valid integer[];
  _refused integer[];
  _refused_kinds text[];
  _refused_keys text[];
BEGIN
  -- A row that changed while this statement waited for its lock is compared again.
  SELECT array_agg(l.item) INTO _valid
    FROM (SELECT a.item
            FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens) WITH ORDINALITY AS u (id, token, item)
                   ORDER BY u.id COLLATE "C" OFFSET 0) AS a
            JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
           WHERE j.token = a.token AND j.expires_at > _now
             FOR UPDATE OF j) AS l;
  IF coalesce(cardinality(_valid), 0) < cardinality(_ids) THEN
    SELECT array_agg(w.item ORDER BY w.position), array_agg(w.kind ORDER BY w.position),
           array_agg(w.key ORDER BY w.position), array_agg(w.value ORDER BY w.position),
           array_agg(w.version ORDER BY w.position), array_agg(w.ttl ORDER BY w.position)
      INTO _writers, _kinds, _keys, _values, _versions, _ttls
      FROM unnest(_writers, _kinds, _keys, _values, _versions, _ttls) WITH ORDINALITY
           AS w (item, kind, key, value, version, ttl, position)
     WHERE (w.item IN (SELECT unnest(_valid))) IS TRUE;
  END IF;

  IF _writers IS NULL THEN
    NULL;
  ELSIF (SELECT count(DISTINCT w.item) FROM unnest(_writers) AS w (item)) = cardinality(_writers) THEN
    SELECT array_agg(_writers[r.position]), array_agg(_kinds[r.position]), array_agg(_keys[r.position])
      INTO _refused, _refused_kinds, _refused_keys
      FROM unnest(write_each(_space, _now, _kinds, _keys, _values, _versions, _ttls)) AS r (position);
  ELSE
    SELECT array_agg(r.item), array_agg(r.kind), array_agg(r.key) INTO _refused, _refused_kinds, _refused_keys
      FROM write_entries(_space, _now, _writers, _kinds, _keys, _values, _versions, _ttls) AS r;
  END IF;
  IF _refused IS NOT NULL THEN
    RETURN QUERY
    SELECT r.item, 'write refused', NULL::text, NULL::bigint, _now, r.kind, r.key
      FROM unnest(_refused, _refused_kinds, _refused_keys) AS r (item, kind, key);
    _tokens := ARRAY(SELECT CASE WHEN t.item IN (SELECT unnest(_refused)) THEN '?' ELSE t.token END
                       FROM unnest(_tokens) WITH ORDINALITY AS t (token, item) ORDER BY t.item);
  END IF;

  RETURN QUERY
  SELECT a.* FROM ack(_space, _now, _ids, _tokens, _started, _results, _details) AS a
   WHERE a.item NOT IN (SELECT unnest(coalesce(_refused, '{}')));
END $$;


-- name: settle
-- End leases by any mix of verbs. Return rows only for refused settlements.
--
-- _runs has the first item of each run. A run is a part of the batch that names every job and every registry entry
-- once. Inside a run the order does not matter, and runs follow one another.
--
-- Locks: the rows of all jobs, sorted by id, then registry entries, then domains, then the settings of held keys. Index: the primary keys of jobs
-- and ended. Shape: one statement per run and step. See README.md, Stable plans.
CREATE OR REPLACE FUNCTION settle(
  _space text, _caller_now bigint, _runs integer[], _ids text[], _tokens text[], _verbs text[], _started bigint[],
  _details text[], _results bytea[], _delays bigint[], _run_at bigint[], _errors text[], _crashed boolean[],
  _reasons text[], _budgets bigint[], _writers integer[], _kinds text[], _keys text[], _values bytea[],
  _versions bigint[], _ttls bigint[], _holds boolean[] DEFAULT NULL
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
  _run integer;
  _first integer;
  _last integer;
  _transitions transition[];
  _valid integer[];
  _refused integer[];     -- items whose registry writes were refused
  _refused_kinds text[];
  _refused_keys text[];
  _queues text[];         -- of end_leases
  _domains text[];
  _offsets bigint[];
  _dead text[];
  _held_queues text[];
  _held_keys text[];
  _held_until bigint[];
BEGIN
  PERFORM FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
             JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
              FOR UPDATE OF j;
  _now := effective_now(_caller_now);
  FOR _run IN 1 .. cardinality(_runs) LOOP
    _first := _runs[_run];
    _last := coalesce(_runs[_run + 1] - 1, cardinality(_ids));

    SELECT array_agg(after_settlement(a.item, j.ctid, j, _now, a.verb, a.started, a.detail, a.result, a.delay, a.run_at,
                                      a.error, a.crashed, a.reason, a.budget) ORDER BY a.item), array_agg(a.item)
      INTO _transitions, _valid
      FROM (SELECT _space AS space, (i.item + _first - 1)::integer AS item, i.id, i.token, i.verb, i.started,
                   coalesce(i.detail, '') AS detail, i.result, coalesce(i.delay, 0) AS delay, i.run_at,
                   coalesce(i.error, '') AS error, coalesce(i.crashed, false) AS crashed, i.reason, i.budget
              FROM unnest(_ids[_first:_last], _tokens[_first:_last], _verbs[_first:_last], _started[_first:_last],
                          _details[_first:_last], _results[_first:_last], _delays[_first:_last],
                          _run_at[_first:_last], _errors[_first:_last], _crashed[_first:_last],
                          _reasons[_first:_last], _budgets[_first:_last]) WITH ORDINALITY
                   AS i (id, token, verb, started, detail, result, delay, run_at, error, crashed, reason, budget, item)
            OFFSET 0) AS a
      JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
     WHERE j.token = a.token AND j.expires_at > _now;

    RETURN QUERY
    SELECT r.* FROM (SELECT array_agg(i.item) AS items, array_agg(_ids[i.item]) AS ids,
                            array_agg(_tokens[i.item]) AS tokens, array_agg(_verbs[i.item]) AS verbs
                       FROM generate_series(_first, _last) AS i (item)
                      WHERE i.item NOT IN (SELECT unnest(coalesce(_valid, '{}')))) AS m
     CROSS JOIN LATERAL refusals(_space, _now, m.items, m.ids, m.tokens, m.verbs) AS r
     WHERE m.items IS NOT NULL;

    IF _valid IS NOT NULL AND _writers IS NOT NULL THEN
      SELECT array_agg(r.item), array_agg(r.kind), array_agg(r.key) INTO _refused, _refused_kinds, _refused_keys
        FROM (SELECT array_agg(w.item ORDER BY w.position) AS items, array_agg(w.kind ORDER BY w.position) AS kinds,
                     array_agg(w.key ORDER BY w.position) AS keys, array_agg(w.value ORDER BY w.position) AS contents,
                     array_agg(w.version ORDER BY w.position) AS versions, array_agg(w.ttl ORDER BY w.position) AS ttls
                FROM unnest(_writers, _kinds, _keys, _values, _versions, _ttls) WITH ORDINALITY
                     AS w (item, kind, key, value, version, ttl, position)
               WHERE (w.item IN (SELECT unnest(_valid))) IS TRUE) AS m
       CROSS JOIN LATERAL write_entries(_space, _now, m.items, m.kinds, m.keys, m.contents, m.versions, m.ttls) AS r
       WHERE m.items IS NOT NULL;
      IF _refused IS NOT NULL THEN
        RETURN QUERY
        SELECT r.item, 'write refused', NULL::text, NULL::bigint, _now, r.kind, r.key
          FROM unnest(_refused, _refused_kinds, _refused_keys) AS r (item, kind, key);
        SELECT array_agg(t) INTO _transitions
          FROM unnest(_transitions) AS t WHERE t.item NOT IN (SELECT unnest(_refused));
      END IF;
    END IF;

    IF _holds IS NOT NULL AND _transitions IS NOT NULL THEN
      SELECT _held_queues || array_agg(h.queue), _held_keys || array_agg(h.limit_key), _held_until || array_agg(h.until)
        INTO _held_queues, _held_keys, _held_until
        FROM (SELECT j.queue, j.limit_key,
                     least(coalesce(_run_at[t.item], _now + coalesce(_delays[t.item], 0)), 253402300799999999) AS until
                FROM unnest(_transitions) AS t JOIN jobs AS j ON j.ctid = t.job_ctid
               WHERE _holds[t.item] AND j.limit_key IS NOT NULL) AS h
       WHERE h.until > _now;
    END IF;

    IF _transitions IS NOT NULL THEN
      SELECT _queues || e.queues, _domains || e.domains, _offsets || e.offsets, _dead || e.dead
        INTO _queues, _domains, _offsets, _dead
        FROM end_leases(_space, _now, _transitions) AS e;
    END IF;
  END LOOP;

  IF _domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _queues, _domains, _offsets, _dead, false);
  END IF;
  IF _held_keys IS NOT NULL THEN
    PERFORM hold_keys(_space, _held_queues, _held_keys, _held_until);
  END IF;
END $$;


-- name: remove_repeated_endings
-- Remove the endings of jobs that are not ended: an id stands in jobs or in ended. Only changes from outside of the
-- driver put an id in both. The job in jobs may be leased, so it stays, and its ending replaces the earlier one; the
-- ledger keeps the rows of both.
--
-- Locks: the removed rows. Index: the primary keys of jobs and ended; it reads all jobs of the space. The driver calls
-- this function when ending a job has failed with a unique violation, and then repeats the call.
CREATE OR REPLACE FUNCTION remove_repeated_endings(_space text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _large bigint[];        -- the payloads that only the removed rows name
BEGIN
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT j.space, j.id, j.payload_seq FROM jobs AS j WHERE j.space = _space ORDER BY j.id OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id
    RETURNING e.payload_seq, a.payload_seq AS kept_seq
  )
  SELECT array_agg(r.payload_seq) INTO _large FROM removed AS r WHERE r.payload_seq IS DISTINCT FROM r.kept_seq;
  DELETE FROM payloads AS p WHERE p.seq = ANY (_large);
END $$;
