-- Tell whoever listens that a job has come, if a lane of this batch had nothing due: then somebody may be asleep. To be
-- called before the jobs are stored. A commit that notifies excludes every other that does, until it is on disk: so only
-- one of the calls that run at the same time does, except in a caller's own transaction (_alone is false), which may
-- stay open for long. It is a hint: whoever waits looks for itself, too. Relies on jobs_lane.
CREATE FUNCTION hint_1(
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
     WHERE NOT EXISTS (SELECT FROM jobs AS j
                        WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type
                          AND j.priority = lane.priority AND j.state = 'ready' AND j.turn AND j.available_at <= _now))
     AND (NOT _alone OR pg_try_advisory_xact_lock(1212106567, hashtext(_space)))
  THEN
    PERFORM pg_notify(_channel, _space);
  END IF;
END $$;

-- Store new jobs, in the order given; answers only for those that existed. One array per column, NULL where no job
-- sets it. Waits only for another enqueue of the same id or key; locks no domain and no lane, because it may be part
-- of a caller's transaction that stays open. Relies on the primary keys of jobs, ended and dedupe.
--
-- Every id is named once in a call. A row is inserted first and looked up in ended afterwards, under a newer snapshot:
-- the other way round, a job that ends between the two would be stored a second time. Lists are searched by
-- `IN (SELECT unnest(...))`, which hashes them; `= ANY` over a parameter compares one by one. A key is looked up from inside
-- LATERAL ... OFFSET 0, which the planner must leave alone: a plain join is turned round while the table is empty and
-- without statistics, and then compares every key of the batch with every key there is.
CREATE FUNCTION enqueue_1(
  _space text, _given bigint, _channel text, _alone boolean, _window bigint, _ids text[], _queues text[], _types text[], _priorities integer[],
  _payloads bytea[], _created bigint[], _max_attempts integer[], _max_crashes integer[], _attempts integer[],
  _crashes integer[], _run_at bigint[], _requested bigint[], _timeouts bigint[], _failed bigint[], _offsets bigint[],
  _keys text[], _digests bytea[], _domains text[], _names text[], _metas bytea[], _webhooks text[],
  _signatures text[], _errors text[]
) RETURNS TABLE (item integer, existing text, conflict boolean) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint := instant_1(_given);
  _skip integer[] := '{}';  -- items that are answered already
  _made text[];
  _taken text[];            -- made, but not to be
BEGIN
  IF _channel IS NOT NULL THEN
    PERFORM hint_1(_space, _channel, _alone, _now, _queues, _types, _priorities, _run_at);
  END IF;

  IF _keys IS NOT NULL THEN
    -- Most repeated keys are known before anything is written.
    RETURN QUERY
    SELECT a.item::integer, d.job_id, d.digest <> a.digest
      FROM unnest(_ids, _queues, _keys, _digests) WITH ORDINALITY AS a (id, queue, key, digest, item)
      CROSS JOIN LATERAL (
        SELECT * FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
     WHERE (d.until > _now OR EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = d.job_id))
       AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = a.id)
       AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id);
    IF FOUND THEN
      SELECT array_agg(a.item) INTO _skip
        FROM unnest(_ids, _queues, _keys) WITH ORDINALITY AS a (id, queue, key, item)
        CROSS JOIN LATERAL (
        SELECT * FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
       WHERE (d.until > _now OR EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = d.job_id))
         AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = a.id)
         AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id);
    END IF;
  END IF;

  WITH made AS (
    INSERT INTO jobs (space, id, queue, type, priority, turn, available_at, enqueued_at, run_at, attempts, max_attempts,
                      crashes, max_crashes, created_at, requested_run_at, timeout, idempotency_key, domain, "offset",
                      name, meta, webhook, signature, last_error, failed_at, payload)
    SELECT _space, a.id, a.queue, a.type, coalesce(a.priority, 0), a.domain IS NULL, coalesce(a.run_at, _now), _now,
           a.run_at, coalesce(a.attempts, 0), a.max_attempts, coalesce(a.crashes, 0), a.max_crashes, a.created_at,
           a.requested, a.timeout, a.key, a.domain, a."offset", a.name, a.meta, a.webhook, a.signature,
           coalesce(a.error, ''), a.failed_at, a.payload
      FROM unnest(_ids, _queues, _types, _priorities, _payloads, _created, _max_attempts, _max_crashes, _attempts,
                  _crashes, _run_at, _requested, _timeouts, _failed, _offsets, _keys, _domains, _names, _metas,
                  _webhooks, _signatures, _errors)
           WITH ORDINALITY
           AS a (id, queue, type, priority, payload, created_at, max_attempts, max_crashes, attempts, crashes, run_at,
                 requested, timeout, failed_at, "offset", key, domain, name, meta, webhook, signature, error, item)
     WHERE _skip = '{}' OR a.item NOT IN (SELECT unnest(_skip))
     ORDER BY a.item
    ON CONFLICT (space, id) DO NOTHING
    RETURNING id
  )
  SELECT array_agg(id) INTO _made FROM made;

  -- An id that has ended is not stored again.
  SELECT array_agg(e.id) INTO _taken FROM ended AS e WHERE e.space = _space AND e.id = ANY (_made);
  IF _taken IS NOT NULL THEN
    DELETE FROM jobs AS j WHERE j.space = _space AND j.id = ANY (_taken);
    RETURN QUERY
    SELECT a.item::integer, e.id, e.payload <> a.payload
      FROM unnest(_ids, _payloads) WITH ORDINALITY AS a (id, payload, item)
      JOIN ended AS e ON e.space = _space AND e.id = a.id
     WHERE (a.id IN (SELECT unnest(_taken))) IS TRUE;
    _made := ARRAY(SELECT unnest(_made) EXCEPT SELECT unnest(_taken));
  END IF;

  IF cardinality(_ids) > coalesce(cardinality(_made), 0) + coalesce(cardinality(_taken), 0) + cardinality(_skip) THEN
    -- Known to jobs when it was tried; it may have ended since.
    RETURN QUERY
    SELECT a.item::integer, a.id, coalesce(coalesce(j.payload, e.payload) <> a.payload, false)
      FROM unnest(_ids, _payloads) WITH ORDINALITY AS a (id, payload, item)
      LEFT JOIN jobs AS j ON j.space = _space AND j.id = a.id
      LEFT JOIN ended AS e ON e.space = _space AND e.id = a.id AND j.id IS NULL
     WHERE a.item NOT IN (SELECT unnest(_skip))
       AND a.id NOT IN (SELECT unnest(coalesce(_made, '{}') || coalesce(_taken, '{}')));
  END IF;

  IF _keys IS NOT NULL AND _made IS NOT NULL THEN
    -- The key belongs to whoever enters it first. Sorted, so that two calls wait for each other in one direction.
    INSERT INTO dedupe AS d (space, queue, key, job_id, digest, until)
    SELECT DISTINCT ON (a.queue, a.key) _space, a.queue, a.key, a.id, a.digest,
           _now + coalesce((SELECT s.dedupe_window FROM settings AS s
                             WHERE s.space = _space AND s.queue = a.queue AND s.type = ''), _window)
      FROM unnest(_ids, _queues, _keys, _digests) WITH ORDINALITY AS a (id, queue, key, digest, item)
     WHERE a.key IS NOT NULL AND (a.id IN (SELECT unnest(_made))) IS TRUE
     ORDER BY a.queue, a.key, a.item
    ON CONFLICT (space, queue, key) DO UPDATE
       SET job_id = excluded.job_id, digest = excluded.digest, until = excluded.until
     WHERE d.until <= _now AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = d.space AND j.id = d.job_id);

    SELECT array_agg(a.id) INTO _taken
      FROM unnest(_ids, _queues, _keys) AS a (id, queue, key)
      CROSS JOIN LATERAL (
        SELECT * FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
     WHERE d.job_id <> a.id AND (a.id IN (SELECT unnest(_made))) IS TRUE;
    IF _taken IS NOT NULL THEN
      DELETE FROM jobs AS j WHERE j.space = _space AND j.id = ANY (_taken);
      RETURN QUERY
      SELECT a.item::integer, d.job_id, d.digest <> a.digest
        FROM unnest(_ids, _queues, _keys, _digests) WITH ORDINALITY AS a (id, queue, key, digest, item)
        CROSS JOIN LATERAL (
        SELECT * FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
       WHERE (a.id IN (SELECT unnest(_taken))) IS TRUE;
      _made := ARRAY(SELECT unnest(_made) EXCEPT SELECT unnest(_taken));
    END IF;
  END IF;

  IF _domains IS NOT NULL THEN
    INSERT INTO arrivals (space, queue, domain)
    SELECT DISTINCT _space, a.queue, a.domain
      FROM unnest(_ids, _queues, _domains) AS a (id, queue, domain)
     WHERE a.domain IS NOT NULL AND (a.id IN (SELECT unnest(_made))) IS TRUE;
  END IF;
END $$;

-- After a COPY into jobs, in the same transaction: an id that has ended is refused as one in jobs would have been, and
-- the domains are told. The caller then rolls back, and asks enqueue_1.
CREATE FUNCTION copied_1(_space text, _ids text[], _queues text[], _domains text[]) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s'
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = ANY (_ids)) THEN
    RAISE unique_violation USING MESSAGE = 'a job of this batch has ended before';
  END IF;
  INSERT INTO arrivals (space, queue, domain)
  SELECT _space, d.queue, d.domain FROM unnest(_queues, _domains) AS d (queue, domain);
END $$;
