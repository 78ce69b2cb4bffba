-- Store new jobs in the order of the arrays. Return rows only for jobs whose id or idempotency key exists (law L12).
--
-- Every id is named once in a call. Each column of a job is one array, named after the column. `conflict` is true if
-- the payload differs from the stored one.
--
-- Locks: it waits only for another enqueue of the same id or key. It locks no domain and no lane, because it may be
-- part of a caller's transaction that stays open. Index: the primary keys of jobs, ended and dedupe.
-- Shape: a job is inserted first and looked up in `ended` afterwards, under a newer snapshot. In the other order a
-- job that ends between the two steps would be stored twice. A key is looked up inside LATERAL ... OFFSET 0: a plain
-- join, planned while the table was empty, compared every key of the batch with every stored key. See README.md,
-- Stable plans.
CREATE OR REPLACE FUNCTION enqueue(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _digest bytea[],
  {stored_parameters}
) RETURNS TABLE (item integer, existing text, conflict boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _known integer[];       -- items whose key exists: answered before anything is inserted
  _inserted text[];       -- ids
  _rejected text[];       -- ids that were inserted and must be removed again
  _rejected_items integer[];
  _existing text[];
  _conflicts boolean[];
  _entered integer;       -- how many keys of the batch were new
BEGIN
  IF _channel IS NOT NULL THEN
    PERFORM notify_listeners(_space, _channel, _owns_transaction, _now, _queue, _type, _priority, _max_attempts,
                             _run_at);
  END IF;

  IF _idempotency_key IS NOT NULL THEN
    -- Most repeated keys are found here, before anything is written. An id that exists is answered by its id, below.
    SELECT array_agg(a.item), array_agg(d.job_id), array_agg(d.digest <> a.digest)
      INTO _known, _existing, _conflicts
      FROM unnest(_id, _queue, _idempotency_key, _digest) WITH ORDINALITY AS a (id, queue, key, digest, item)
     CROSS JOIN LATERAL (
       SELECT * FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
     WHERE (d.until > _now
            OR EXISTS (SELECT FROM jobs AS j
                        WHERE j.space = _space AND j.id = d.job_id AND (j.state = 'ready' OR NOT d.while_queued)
                       OFFSET 0))
       AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = a.id OFFSET 0)
       AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0);
    RETURN QUERY SELECT * FROM unnest(_known, _existing, _conflicts);
  END IF;

  WITH inserted AS (
    INSERT INTO jobs ({stored_columns}, space, turn, available_at, enqueued_at)
    SELECT {a.stored_columns}, _space, a.domain IS NULL, coalesce(a.run_at, _now), _now
      FROM unnest({stored_arguments}) WITH ORDINALITY AS a ({stored_columns}, item)
     WHERE _known IS NULL OR a.item NOT IN (SELECT unnest(_known))
     ORDER BY a.item
    ON CONFLICT (space, id) DO NOTHING
    RETURNING id
  )
  SELECT array_agg(id) INTO _inserted FROM inserted;

  -- An id that has ended is not stored again.
  SELECT array_agg(a.id) INTO _rejected
    FROM unnest(_inserted) AS a (id)
   WHERE EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0);
  IF _rejected IS NOT NULL THEN
    DELETE FROM jobs AS j USING (SELECT _space AS space, u.id FROM unnest(_rejected) AS u (id) OFFSET 0) AS a
     WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id;
    _inserted := ARRAY(SELECT unnest(_inserted) EXCEPT SELECT unnest(_rejected));
  END IF;

  IF cardinality(_id) > coalesce(cardinality(_inserted), 0) + coalesce(cardinality(_known), 0) THEN
    -- The other ids exist, in jobs or in ended; one that was in jobs a moment ago may have ended since.
    RETURN QUERY
    SELECT a.item::integer, a.id, coalesce(coalesce(j.payload, e.payload) <> a.payload, false)
      FROM unnest(_id, _payload) WITH ORDINALITY AS a (id, payload, item)
      LEFT JOIN jobs AS j ON j.space = ANY (ARRAY[_space]) AND j.id = a.id
      LEFT JOIN ended AS e ON e.space = ANY (ARRAY[_space]) AND e.id = a.id AND j.id IS NULL
     WHERE a.item NOT IN (SELECT unnest(coalesce(_known, '{}')))
       AND a.id NOT IN (SELECT unnest(coalesce(_inserted, '{}')));
  END IF;

  IF _idempotency_key IS NOT NULL AND _inserted IS NOT NULL THEN
    -- A key belongs to the first job that enters it. Sorted, so that two calls wait for each other in one direction.
    -- DO UPDATE with a false condition changes nothing, and locks the row of a key that exists.
    WITH entered AS (
      INSERT INTO dedupe AS d (space, queue, key, job_id, digest, until, while_queued)
      SELECT DISTINCT ON (a.queue, a.key) _space, a.queue, a.key, a.id, a.digest,
             _now + coalesce(CASE WHEN a.unique_for < 0 THEN 0 ELSE a.unique_for END,
                             (SELECT s.dedupe_window FROM settings AS s
                               WHERE s.space = _space AND s.queue = a.queue AND s.type = ''), _window),
             coalesce(a.unique_for < 0, false)
        FROM unnest(_id, _queue, _idempotency_key, _digest, _unique_for)
             WITH ORDINALITY AS a (id, queue, key, digest, unique_for, item)
       WHERE a.key IS NOT NULL AND (a.id IN (SELECT unnest(_inserted))) IS TRUE
       ORDER BY a.queue, a.key, a.item
      ON CONFLICT (space, queue, key) DO UPDATE SET until = d.until WHERE false
      RETURNING d.job_id
    )
    SELECT count(*) INTO _entered FROM entered;

    IF _entered < cardinality(_inserted) THEN
      -- Take over the keys that are locked now, whose window has passed and whose job is not open (or not ready), unless
      -- it is the same id again, after a purge. A later statement than the wait for the lock: it sees the job that the
      -- previous holder of the lock has committed.
      UPDATE dedupe AS d
         SET job_id = a.id, digest = a.digest,
             until = _now + coalesce(CASE WHEN a.unique_for < 0 THEN 0 ELSE a.unique_for END,
                                     (SELECT s.dedupe_window FROM settings AS s
                                       WHERE s.space = _space AND s.queue = a.queue AND s.type = ''), _window),
             while_queued = coalesce(a.unique_for < 0, false)
        FROM (SELECT DISTINCT ON (u.queue, u.key) _space AS space, u.*
                FROM unnest(_id, _queue, _idempotency_key, _digest, _unique_for)
                     WITH ORDINALITY AS u (id, queue, key, digest, unique_for, item)
               WHERE u.key IS NOT NULL AND (u.id IN (SELECT unnest(_inserted))) IS TRUE
               ORDER BY u.queue, u.key, u.item OFFSET 0) AS a
       WHERE d.space = ANY (ARRAY[a.space]) AND d.queue = a.queue AND d.key = a.key
         AND d.until <= _now
         AND (d.job_id = a.id
              OR NOT EXISTS (SELECT FROM jobs AS j
                              WHERE j.space = d.space AND j.id = d.job_id AND (j.state = 'ready' OR NOT d.while_queued)
                             OFFSET 0));
    END IF;

    SELECT array_agg(a.id), array_agg(a.item), array_agg(d.job_id), array_agg(d.digest <> a.digest)
      INTO _rejected, _rejected_items, _existing, _conflicts
      FROM unnest(_id, _queue, _idempotency_key, _digest) WITH ORDINALITY AS a (id, queue, key, digest, item)
     CROSS JOIN LATERAL (
       SELECT * FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
     WHERE d.job_id <> a.id AND (a.id IN (SELECT unnest(_inserted))) IS TRUE;
    IF _rejected IS NOT NULL THEN
      DELETE FROM jobs AS j USING (SELECT _space AS space, u.id FROM unnest(_rejected) AS u (id) OFFSET 0) AS a
       WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id;
      RETURN QUERY SELECT * FROM unnest(_rejected_items, _existing, _conflicts);
      _inserted := ARRAY(SELECT unnest(_inserted) EXCEPT SELECT unnest(_rejected));
    END IF;
  END IF;

  IF _domain IS NOT NULL THEN
    INSERT INTO arrivals (space, queue, domain)
    SELECT DISTINCT _space, a.queue, a.domain
      FROM unnest(_id, _queue, _domain) AS a (id, queue, domain)
     WHERE a.domain IS NOT NULL AND (a.id IN (SELECT unnest(_inserted))) IS TRUE;
  END IF;
END $$;
