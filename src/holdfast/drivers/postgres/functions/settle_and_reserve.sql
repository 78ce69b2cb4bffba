-- End leases as `settle` does, and lease the next job of the domain of each job in _follow whose lease this call has ended
-- together with the job. Return the rows of `settle` for refused settlements (item is set), then the leased jobs as
-- `reserve` does, in the order of the settlements (token is set).
--
-- A job is leased under the conditions of `reserve`: it is due, of a requested type, allowed by the limits of its queue, type
-- and key, and no due job of a higher priority may run. An isolated job is leased only with _isolation 'share'.
--
-- Locks: those of settle, then those of reserve: the settings of limited queues and the leased rows (SKIP LOCKED). If a
-- settlement holds a key, its settings are locked already, and no job is leased: others would be locked out of order.
-- Index: those of settle, jobs_turn, jobs_domain, and those of best_priority, free_capacity and key_allowances.
-- Shape: after plain acks, in queues without limits, halts and gaps, the next jobs get the turn and the lease in one update:
-- two updates would write every index of the row twice. Domains whose next job is not leased get their turns last.
CREATE OR REPLACE FUNCTION settle_and_reserve(
  _space text, _caller_now bigint, _runs integer[], _ids text[], _tokens text[], _verbs text[], _started bigint[],
  _details text[], _results bytea[], _delays bigint[], _run_at bigint[], _errors text[], _crashed boolean[],
  _reasons text[], _budgets bigint[], _writers integer[], _kinds text[], _keys text[], _values bytea[],
  _versions bigint[], _ttls bigint[], _holds boolean[], _follow text[], _queues text[], _types text[], _lease_for bigint,
  _worker text, _token_bytes bytea, _max_bytes bigint, _isolation text
) RETURNS TABLE (
  item integer, code text, state text, lease_end bigint, now bigint, kind text, key text,
  token text, fence bigint, expires_at bigint, checkpoint bytea, isolated boolean, {declared_stored_columns}
) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
  _limits boolean[];          -- of lock_limits
  _limited boolean;
  _keyed text[];              -- the queues of which limit keys are checked; NULL: none
  _held text[];               -- jobs of domains that were in flight
  _held_tokens text[];
  _held_queues text[];
  _held_domains text[];
  _held_offsets bigint[];
  _held_followed boolean[];
  _refused text[] := '{}';    -- jobs whose acks were refused
  _is_direct boolean := false;  -- whether jobs are leased before the turns are given
  _next_queues text[];        -- the domains that go on, in the order of the settlements
  _next_domains text[];
  _best integer;
  _taken tid[];
BEGIN
  SELECT array_agg(l.id ORDER BY l.item) FILTER (WHERE l.is_held),
         array_agg(l.token ORDER BY l.item) FILTER (WHERE l.is_held),
         array_agg(l.queue ORDER BY l.item) FILTER (WHERE l.is_held),
         array_agg(l.domain ORDER BY l.item) FILTER (WHERE l.is_held),
         array_agg(l."offset" ORDER BY l.item) FILTER (WHERE l.is_held),
         array_agg(l.is_followed ORDER BY l.item) FILTER (WHERE l.is_held)
    INTO _held, _held_tokens, _held_queues, _held_domains, _held_offsets, _held_followed
    FROM (SELECT a.item, a.id, a.token, j.queue, j.domain, j."offset",
                 j.token = a.token AND j.domain IS NOT NULL AS is_held,
                 j.queue = ANY (_queues) AND (a.id IN (SELECT unnest(_follow))) IS TRUE AS is_followed
            FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens) WITH ORDINALITY AS u (id, token, item)
                   ORDER BY u.id COLLATE "C" OFFSET 0) AS a
            JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
             FOR UPDATE OF j) AS l;

  IF cardinality(_runs) = 1 AND _writers IS NULL AND 'ack' = ALL (_verbs) THEN
    FOR item, code, state, lease_end, now, kind, key IN
      SELECT r.* FROM ack(_space, _caller_now, _ids, _tokens, _started, _results, _details, false) AS r
    LOOP
      _refused := _refused || _ids[item];
      RETURN NEXT;
    END LOOP;
    IF _refused <> '{}' THEN
      SELECT array_agg(h.queue), array_agg(h.domain), array_agg(h.place), array_agg(h.is_followed)
        INTO _held_queues, _held_domains, _held_offsets, _held_followed
        FROM unnest(_held, _held_queues, _held_domains, _held_offsets, _held_followed)
             AS h (id, queue, domain, place, is_followed)
       WHERE h.id NOT IN (SELECT unnest(_refused));
    END IF;
    IF _held_domains IS NULL THEN
      RETURN;
    END IF;
    PERFORM lock_domains(_space, _held_queues, _held_domains);
    IF cardinality(array_remove(_held_offsets, NULL)) > 0 THEN
      PERFORM note_endings(_space, effective_now(_caller_now), _held_queues, _held_domains, _held_offsets, NULL);
    END IF;
    SELECT array_agg(h.queue), array_agg(h.domain) INTO _next_queues, _next_domains
      FROM unnest(_held_queues, _held_domains, _held_followed) AS h (queue, domain, is_followed) WHERE h.is_followed;
    _limits := lock_limits(_space, _queues);
    _now := effective_now(_caller_now);
    _is_direct := _limits IS NULL AND _next_domains IS NOT NULL AND NOT has_special_domains(_space, _held_queues);
    IF NOT _is_direct AND NOT give_turns(_space, _held_queues, _held_domains, true) THEN
      PERFORM assign_turns(_space, _now, _held_queues, _held_domains);
    END IF;
  ELSE
    FOR item, code, state, lease_end, now, kind, key IN
      SELECT r.* FROM settle(_space, _caller_now, _runs, _ids, _tokens, _verbs, _started, _details, _results, _delays,
                             _run_at, _errors, _crashed, _reasons, _budgets, _writers, _kinds, _keys, _values,
                             _versions, _ttls, _holds) AS r
    LOOP
      RETURN NEXT;
    END LOOP;
    SELECT array_agg(e.queue ORDER BY f.item), array_agg(e.domain ORDER BY f.item) INTO _next_queues, _next_domains
      FROM (SELECT _space AS space, u.* FROM unnest(_held, _held_tokens, _held_followed) WITH ORDINALITY
                   AS u (id, token, is_followed, item) WHERE u.is_followed OFFSET 0) AS f
      JOIN ended AS e ON e.space = ANY (ARRAY[f.space]) AND e.id = f.id
     WHERE e.last_token = f.token;
    IF true = ANY (_holds) THEN
      RETURN;
    END IF;
    _limits := lock_limits(_space, _queues);
  END IF;
  IF _next_domains IS NULL THEN
    RETURN;
  END IF;

  _limited := coalesce(_limits[1], false);
  IF _limits[2] THEN
    SELECT array_agg(l.queue) INTO _keyed
      FROM (SELECT s.queue FROM settings AS s
             WHERE s.space = _space AND s.queue = ANY (_queues) AND s.type = '' AND s.keyed FOR UPDATE SKIP LOCKED) AS l;
  END IF;
  _now := effective_now(_caller_now);  -- the waits for locks are over
  IF _keyed IS NOT NULL THEN
    PERFORM open_keys(_space, _now, _keyed);
  END IF;

  _best := best_priority(_space, _now, _queues, _types, _isolation, _limited);
  IF _is_direct THEN
    SELECT array_agg(first.row ORDER BY d.item) FILTER (WHERE d.is_followed AND (NOT first.isolated OR _isolation = 'share')),
           greatest(_best, max(first.priority) FILTER (WHERE NOT (first.isolated AND _isolation = 'skip')))
      INTO _taken, _best
      FROM unnest(_held_queues, _held_domains, _held_followed) WITH ORDINALITY AS d (queue, domain, is_followed, item)
     CROSS JOIN LATERAL (
       SELECT j.ctid AS row, j.type, j.priority, j.isolated, j.available_at FROM jobs AS j
        WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn
        ORDER BY j."offset", j.seq LIMIT 1) AS first
     WHERE d.queue = ANY (_queues) AND first.available_at <= _now AND (_types IS NULL OR first.type = ANY (_types));
    _taken := ARRAY(
      SELECT j.ctid FROM unnest(_taken) WITH ORDINALITY AS t (job_ctid, item) JOIN jobs AS j ON j.ctid = t.job_ctid
       WHERE j.priority >= _best ORDER BY t.item FOR UPDATE OF j SKIP LOCKED);
  ELSE
    _taken := ARRAY(
      SELECT next.row
        FROM unnest(_next_queues, _next_domains) WITH ORDINALITY AS d (queue, domain, item) CROSS JOIN LATERAL (
          SELECT j.ctid AS row FROM jobs AS j
           WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND j.turn AND j.state = 'ready'
             AND j.available_at <= _now AND j.priority >= _best AND (_types IS NULL OR j.type = ANY (_types))
             AND (NOT j.isolated OR _isolation = 'share')
             FOR UPDATE SKIP LOCKED) AS next
       ORDER BY d.item);
  END IF;

  IF _limited THEN
    _taken := ARRAY(
      WITH capacity AS MATERIALIZED (
        SELECT c.queue, c.type, c.free FROM free_capacity(_space, _queues, _now) AS c
      ), of_type AS (
        SELECT t.job_ctid, t.item, j.queue, j.type,
               row_number() OVER (PARTITION BY j.queue, j.type ORDER BY t.item) AS place
          FROM unnest(_taken) WITH ORDINALITY AS t (job_ctid, item) JOIN jobs AS j ON j.ctid = t.job_ctid
      ), of_queue AS (
        SELECT o.job_ctid, o.item, o.queue, row_number() OVER (PARTITION BY o.queue ORDER BY o.item) AS place
          FROM of_type AS o
         WHERE o.place <= coalesce((SELECT c.free FROM capacity AS c WHERE c.queue = o.queue AND c.type = o.type), o.place)
      )
      SELECT o.job_ctid FROM of_queue AS o
       WHERE o.place <= coalesce((SELECT c.free FROM capacity AS c WHERE c.queue = o.queue AND c.type = ''), o.place)
       ORDER BY o.item);
  END IF;
  IF _keyed IS NOT NULL THEN
    _taken := ARRAY(
      WITH wanted AS MATERIALIZED (
        SELECT t.job_ctid, t.item, j.queue, j.limit_key,
               row_number() OVER (PARTITION BY j.queue, j.limit_key ORDER BY t.item) AS place
          FROM unnest(_taken) WITH ORDINALITY AS t (job_ctid, item) JOIN jobs AS j ON j.ctid = t.job_ctid
      ), allowed AS MATERIALIZED (
        SELECT a.queue, a.key, a.free
          FROM (SELECT array_agg(w.queue) AS queues, array_agg(w.limit_key) AS keys FROM wanted AS w
                 WHERE w.limit_key IS NOT NULL AND w.place = 1) AS k
         CROSS JOIN LATERAL key_allowances(_space, _now, k.queues, k.keys) AS a
      )
      SELECT w.job_ctid FROM wanted AS w
       WHERE w.limit_key IS NULL OR w.queue <> ALL (_keyed)
          OR w.place <= (SELECT a.free FROM allowed AS a WHERE a.queue = w.queue AND a.key = w.limit_key)
       ORDER BY w.item);
  END IF;
  IF _max_bytes < (SELECT sum(octet_length(j.payload)) FROM jobs AS j WHERE j.ctid = ANY (_taken)) THEN
    _taken := fit_bytes(_taken, _max_bytes);
  END IF;
  IF _taken <> '{}' THEN
    IF _limited THEN
      PERFORM spend_rates(_space, _now, _queues, _taken);
    END IF;
    IF _keyed IS NOT NULL THEN
      PERFORM spend_keys(_space, _now, _keyed, _taken);
    END IF;

    _now := effective_now(_caller_now);
    RETURN QUERY
    UPDATE jobs AS j
       SET state = 'inflight', turn = true, attempts = least(j.attempts, 2147483646) + 1, fence = t.fence,
           token = t.fence || '.' || encode(substr(_token_bytes, t.item::integer * 16 - 15, 16), 'hex'),
           expires_at = _now + _lease_for, check_at = _now + _lease_for, reserved_at = _now, worker = _worker,
           started_at = NULL, prefetched = false
      FROM (SELECT u.job_ctid, u.item, nextval('counter') AS fence
              FROM unnest(_taken) WITH ORDINALITY AS u (job_ctid, item)) AS t
     WHERE j.ctid = t.job_ctid
    RETURNING NULL::integer, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text, NULL::text,
              j.token, j.fence, j.expires_at,
              CASE WHEN j.noted THEN (SELECT n.checkpoint FROM notes AS n WHERE n.space = _space AND n.job_id = j.id) END,
              j.suspect OR j.crashes > 0 OR j.attempts >= j.max_attempts, {j.stored_columns};
  END IF;
  IF _is_direct AND cardinality(_taken) < cardinality(_held_domains)
     AND NOT give_turns(_space, _held_queues, _held_domains, false) THEN
    PERFORM assign_turns(_space, _now, _held_queues, _held_domains);
  END IF;
END $$;
