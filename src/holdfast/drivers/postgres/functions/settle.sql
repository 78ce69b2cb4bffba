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
