-- Store jobs given as arrays.

-- name: enqueue
-- Store new jobs in the order of the arrays. Return rows only for jobs whose id, idempotency key or offset exists (laws
-- L11, L12).
--
-- Every id, and every offset of a domain, is named once in a call. Each column of a job is one array, named after the
-- column. `conflict` is true if the payload differs from the stored one, `past` if the offset has ended.
--
-- Locks: it waits only for another transaction that stores or ends the same id, key or offset. It locks no domain and no
-- lane, because it may be part of a caller's transaction that stays open. Index: the primary keys of jobs, ended, dedupe
-- and ended_offsets, jobs_offset and ended_offset.
-- Shape: a job is inserted first and looked up in `ended` and ended_offsets afterwards, under a newer snapshot. In the other
-- order a job that ends between the two steps would be stored twice. Jobs with offsets are inserted in the order of their
-- offsets: two calls that share offsets wait for each other in one direction. Their places in the order of arrival are
-- drawn before. Large payloads are stored last, of the jobs that stay. A key is looked up inside LATERAL ... OFFSET 0: a plain join, planned while the table was empty, compared
-- every key of the batch with every stored key. See README.md, Stable plans.
CREATE OR REPLACE FUNCTION enqueue(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _digest bytea[],
  {stored_parameters}
) RETURNS TABLE (item integer, existing text, conflict boolean, past boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _known integer[];       -- items that were answered: those whose key exists are, before anything is inserted
  _seqs bigint[];         -- of the items, if the batch has offsets
  _inserted text[];       -- ids
  _large integer;         -- how many of them have payloads with rows of their own
  _rejected text[];       -- ids that were inserted and must be removed again
  _rejected_items integer[];
  _existing text[];
  _conflicts boolean[];
  _entered integer;       -- how many keys of the batch were new
BEGIN
  IF _channel IS NOT NULL THEN
    PERFORM notify_listeners(_space, _channel, _owns_transaction, _now, _queue, _type, _priority, _run_at);
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
    RETURN QUERY SELECT k.*, false FROM unnest(_known, _existing, _conflicts) AS k;
  END IF;

  IF _offset IS NOT NULL THEN
    _seqs := ARRAY(SELECT nextval('jobs_seq_seq') FROM generate_series(1, cardinality(_id)));
  END IF;
  WITH inserted AS (
    INSERT INTO jobs (seq, {stored_columns}, payload_seq, space, turn, available_at, enqueued_at) OVERRIDING SYSTEM VALUE
    SELECT coalesce(_seqs[a.item], nextval('jobs_seq_seq')), {a.inserted_columns},
           CASE WHEN octet_length(a.payload) > {max_inline_bytes} THEN nextval('jobs_seq_seq') END, _space,
           a.domain IS NULL, coalesce(a.run_at, _now), _now
      FROM unnest({stored_arguments}) WITH ORDINALITY AS a ({stored_columns}, item)
     WHERE _known IS NULL OR a.item NOT IN (SELECT unnest(_known))
     ORDER BY CASE WHEN a."offset" IS NOT NULL THEN ROW(a.queue, a.domain, a."offset") END, a.item
    ON CONFLICT DO NOTHING
    RETURNING id, payload_seq
  )
  SELECT array_agg(id), count(payload_seq) INTO _inserted, _large FROM inserted;

  -- An id that has ended is not stored again.
  SELECT array_agg(a.id) INTO _rejected
    FROM unnest(_inserted) AS a (id)
   WHERE EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0);
  IF _rejected IS NOT NULL THEN
    DELETE FROM jobs AS j USING (SELECT _space AS space, u.id FROM unnest(_rejected) AS u (id) OFFSET 0) AS a
     WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id;
    _inserted := ARRAY(SELECT unnest(_inserted) EXCEPT SELECT unnest(_rejected));
  END IF;

  IF _offset IS NOT NULL AND _inserted IS NOT NULL THEN
    -- Nor is an offset that has ended.
    SELECT array_agg(a.id), array_agg(a.item), array_agg(coalesce(e.id, a.id)),
           array_agg(coalesce(e.payload <> a.payload, false))
      INTO _rejected, _rejected_items, _existing, _conflicts
      FROM unnest(_id, _queue, _domain, _offset, _payload) WITH ORDINALITY AS a (id, queue, domain, place, payload, item)
     CROSS JOIN LATERAL (
       SELECT o.last FROM ended_offsets AS o
        WHERE o.space = _space AND o.queue = a.queue AND o.domain = a.domain AND o.first <= a.place
        ORDER BY o.first DESC LIMIT 1) AS o
      LEFT JOIN LATERAL (
       SELECT e.id, coalesce(e.payload, load_payload(e.payload_seq)) AS payload FROM ended AS e
        WHERE e.space = _space AND e.queue = a.queue AND e.domain = a.domain AND e."offset" = a.place
        ORDER BY e.seq DESC LIMIT 1) AS e ON true
     WHERE o.last >= a.place AND (a.id IN (SELECT unnest(_inserted))) IS TRUE;
    IF _rejected IS NOT NULL THEN
      DELETE FROM jobs AS j USING (SELECT _space AS space, u.id FROM unnest(_rejected) AS u (id) OFFSET 0) AS a
       WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id;
      RETURN QUERY SELECT r.*, true FROM unnest(_rejected_items, _existing, _conflicts) AS r;
      _inserted := ARRAY(SELECT unnest(_inserted) EXCEPT SELECT unnest(_rejected));
      _known := _known || _rejected_items;
    END IF;
  END IF;

  IF cardinality(_id) > coalesce(cardinality(_inserted), 0) + coalesce(cardinality(_known), 0) THEN
    -- The other ids exist, in jobs or in ended, or their offsets do; one that was in jobs a moment ago may have ended since.
    RETURN QUERY
    SELECT a.item::integer, coalesce(j.id, e.id, o.id, p.id, a.id),
           coalesce(coalesce(j.payload, e.payload, o.payload, p.payload) <> a.payload, false),
           a.place IS NOT NULL AND j.id IS NULL AND e.id IS NULL AND o.id IS NULL
      FROM unnest(_id, _payload, _queue, _domain, _offset) WITH ORDINALITY AS a (id, payload, queue, domain, place, item)
      LEFT JOIN LATERAL (
        SELECT j.id, coalesce(j.payload, load_payload(j.payload_seq)) AS payload FROM jobs AS j
         WHERE j.space = _space AND j.id = a.id OFFSET 0) AS j ON true
      LEFT JOIN LATERAL (
        SELECT e.id, coalesce(e.payload, load_payload(e.payload_seq)) AS payload FROM ended AS e
         WHERE j.id IS NULL AND e.space = _space AND e.id = a.id OFFSET 0) AS e ON true
      LEFT JOIN LATERAL (
        SELECT o.id, coalesce(o.payload, load_payload(o.payload_seq)) AS payload FROM jobs AS o
         WHERE j.id IS NULL AND e.id IS NULL AND o.space = _space AND o.queue = a.queue AND o.domain = a.domain
           AND o."offset" = a.place OFFSET 0) AS o ON true
      LEFT JOIN LATERAL (
        SELECT p.id, coalesce(p.payload, load_payload(p.payload_seq)) AS payload FROM ended AS p
         WHERE j.id IS NULL AND e.id IS NULL AND o.id IS NULL AND p.space = _space AND p.queue = a.queue
           AND p.domain = a.domain AND p."offset" = a.place
         ORDER BY p.seq DESC LIMIT 1) AS p ON true
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
      RETURN QUERY SELECT r.*, false FROM unnest(_rejected_items, _existing, _conflicts) AS r;
      _inserted := ARRAY(SELECT unnest(_inserted) EXCEPT SELECT unnest(_rejected));
    END IF;
  END IF;

  IF _large > 0 THEN
    INSERT INTO payloads (seq, space, payload)
    SELECT j.payload_seq, _space, a.payload
      FROM (SELECT _space AS space, u.* FROM unnest(_id, _payload) AS u (id, payload)
             WHERE octet_length(u.payload) > {max_inline_bytes} AND (u.id IN (SELECT unnest(_inserted))) IS TRUE
            OFFSET 0) AS a
      JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id;
  END IF;

  IF _domain IS NOT NULL THEN
    INSERT INTO arrivals (space, queue, domain)
    SELECT DISTINCT _space, a.queue, a.domain
      FROM unnest(_id, _queue, _domain) AS a (id, queue, domain)
     WHERE a.domain IS NOT NULL AND (a.id IN (SELECT unnest(_inserted))) IS TRUE;
  END IF;
END $$;


-- name: enqueue_one
-- Store one new job: the same as `enqueue` with a batch of one, in two thirds of its time. `existing` is NULL if the job
-- was stored (law L12).
--
-- Each column of the job is one parameter, named after the column. The job has no offset. Only a job whose id and key have
-- never been used is stored here. Everything else is left to `enqueue`.
--
-- Locks: as enqueue. Index: jobs_lane, the primary keys of jobs, ended and dedupe.
-- Shape: as in enqueue, the job is inserted before it is looked up in `ended`. The key is looked up in a statement of its
-- own: as a part of a condition, the query would be started also for a job without a key.
CREATE OR REPLACE FUNCTION enqueue_one(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _digest bytea,
  {stored_scalars}, OUT existing text, OUT conflict boolean
) LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _is_key_known boolean := false;
  _payload_seq bigint := CASE WHEN octet_length(_payload) > {max_inline_bytes} THEN nextval('jobs_seq_seq') END;
  _is_inserted boolean := false;
  _is_new boolean;
BEGIN
  IF _channel IS NOT NULL AND coalesce(_run_at, _now) <= _now
     AND NOT EXISTS (SELECT FROM jobs AS j
                      WHERE j.space = _space AND j.queue = _queue AND j.type = _type AND j.priority = _priority
                        AND NOT j.isolated AND j.state = 'ready' AND j.turn AND j.available_at <= _now)
     AND (NOT _owns_transaction OR pg_try_advisory_xact_lock(1212106567, hashtext(_space)))
  THEN
    PERFORM pg_notify(_channel, _space);
  END IF;

  IF _idempotency_key IS NOT NULL THEN
    _is_key_known := EXISTS (
      SELECT FROM dedupe AS d WHERE d.space = _space AND d.queue = _queue AND d.key = _idempotency_key);
  END IF;
  IF NOT _is_key_known THEN
    INSERT INTO jobs ({stored_columns}, payload_seq, space, turn, available_at, enqueued_at)
    VALUES ({inserted_arguments}, _payload_seq, _space, _domain IS NULL, coalesce(_run_at, _now), _now)
    ON CONFLICT (space, id) DO NOTHING;
    _is_inserted := FOUND;
  END IF;
  _is_new := _is_inserted AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = _id);

  IF _is_new AND _idempotency_key IS NOT NULL THEN
    INSERT INTO dedupe (space, queue, key, job_id, digest, until, while_queued)
    VALUES (_space, _queue, _idempotency_key, _id, _digest,
            _now + coalesce(CASE WHEN _unique_for < 0 THEN 0 ELSE _unique_for END,
                            (SELECT s.dedupe_window FROM settings AS s
                              WHERE s.space = _space AND s.queue = _queue AND s.type = ''), _window),
            coalesce(_unique_for < 0, false))
    ON CONFLICT (space, queue, key) DO NOTHING;
    _is_new := FOUND;
  END IF;

  IF NOT _is_new THEN
    IF _is_inserted THEN
      DELETE FROM jobs AS j WHERE j.space = _space AND j.id = _id;
    END IF;
    SELECT e.existing, e.conflict INTO existing, conflict
      FROM enqueue(_space, _now, NULL, _owns_transaction, _window, ARRAY[_digest], {stored_singletons}) AS e;
    RETURN;
  END IF;
  IF _payload_seq IS NOT NULL THEN
    INSERT INTO payloads (seq, space, payload) VALUES (_payload_seq, _space, _payload);
  END IF;
  IF _domain IS NOT NULL THEN
    INSERT INTO arrivals (space, queue, domain) VALUES (_space, _queue, _domain);
  END IF;
END $$;


-- name: enqueue_with_writes
-- Make registry changes and store new jobs: both, or neither if the version of a change differs. Then the only row has
-- item 0, and the kind and key of the first such change. Otherwise the rows are those of `enqueue`; the kind is 'past' for an
-- offset that has ended (code from before offsets reads five columns).
--
-- The changes name every entry once. The other parameters are those of `enqueue`.
--
-- Locks: the rows of the entries, sorted by kind and key, then as enqueue. Index: the primary key of registry, and as
-- enqueue. Shape: the entries come first. Of two calls that expect the same version the second waits for the first
-- before it has stored anything, and nothing has to be undone: a caller's own transaction stays usable.
CREATE OR REPLACE FUNCTION enqueue_with_writes(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _kinds text[],
  _keys text[], _values bytea[], _versions bigint[], _ttls bigint[], _digest bytea[], {stored_parameters}
) RETURNS TABLE (item integer, existing text, conflict boolean, kind text, key text) LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
BEGIN
  RETURN QUERY
  SELECT 0, NULL::text, NULL::boolean, w.kind, w.key
    FROM write_entries(_space, _now, array_fill(1, ARRAY[cardinality(_kinds)]), _kinds, _keys, _values, _versions,
                       _ttls) AS w;
  IF FOUND THEN
    RETURN;
  END IF;

  RETURN QUERY
  SELECT e.item, e.existing, e.conflict, CASE WHEN e.past THEN 'past' END, NULL::text
    FROM enqueue(_space, _now, _channel, _owns_transaction, _window, _digest, {stored_arguments}) AS e;
END $$;


-- name: replace_dead
-- Remove the dead jobs that ended before an instant and have a key of these new records; free the keys (laws L12, L13). The
-- caller stores the records in the same transaction.
--
-- A record whose id exists removes nothing. _read_xid and _read_seq are those of `purge`: jobs with unread ledger rows stay.
--
-- Locks: the rows of the jobs in ended, sorted by id, and what purge locks; then the keys in dedupe, sorted. Of two calls for
-- one key the second waits, and finds no dead job then. Index: the primary keys of jobs, ended and dedupe.
-- Shape: see README.md, Stable plans. A job is removed only under the lock that saw it dead: a requeued one stays.
CREATE OR REPLACE FUNCTION replace_dead(
  _space text, _caller_now bigint, _before bigint, _id text[], _queue text[], _key text[],
  _read_xid bigint DEFAULT NULL, _read_seq bigint DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _holders text[];
  _removed text[];
BEGIN
  _holders := ARRAY(
    SELECT d.job_id
      FROM unnest(_id, _queue, _key) AS a (id, queue, key)
     CROSS JOIN LATERAL (
       SELECT d.job_id FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
     WHERE NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = a.id OFFSET 0)
       AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0));
  -- The state is compared after the join: as a condition of it, all dead jobs would be read and compared with the batch.
  SELECT array_agg(l.id) INTO _holders
    FROM (SELECT e.id, e.state, e.ended_at
            FROM (SELECT DISTINCT _space AS space, u.id COLLATE "C" AS id FROM unnest(_holders) AS u (id) ORDER BY 2
                  OFFSET 0) AS a
            JOIN ended AS e ON e.space = ANY (ARRAY[a.space]) AND e.id = a.id
          OFFSET 0 FOR UPDATE OF e) AS l
   WHERE l.state = 'dead' AND l.ended_at < _before;
  IF _holders IS NULL THEN
    RETURN;
  END IF;
  _removed := purge(_space, _caller_now, _holders, _read_xid, _read_seq);
  PERFORM FROM (SELECT _space AS space, u.queue, u.key FROM unnest(_queue, _key) AS u (queue, key)
                 ORDER BY u.queue, u.key OFFSET 0) AS a
     JOIN dedupe AS d ON d.space = ANY (ARRAY[a.space]) AND d.queue = a.queue AND d.key = a.key
      FOR UPDATE OF d;
  DELETE FROM dedupe AS d
   USING (SELECT _space AS space, u.queue, u.key FROM unnest(_queue, _key) AS u (queue, key) OFFSET 0) AS a
   WHERE d.space = ANY (ARRAY[a.space]) AND d.queue = a.queue AND d.key = a.key
     AND (d.job_id IN (SELECT unnest(_removed))) IS TRUE;
END $$;
