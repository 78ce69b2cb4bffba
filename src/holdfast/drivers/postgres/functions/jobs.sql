-- What operators do to jobs.

-- name: cancel
-- Cancel ready jobs at once and flag the ones in flight. Return the state of each known job afterwards. If a job was
-- flagged, send a NOTIFY to _channel: a worker that holds the job may be waiting for it (wait_for_cancel).
--
-- Locks: the rows of the jobs, sorted by id, then the domains of the cancelled ones. Index: the primary keys of jobs
-- and ended. Shape: see README.md, Stable plans. Only the rows that the first statement locked are changed: a job that
-- another session requeues meanwhile would be locked out of order, and two cancels would wait for each other.
CREATE OR REPLACE FUNCTION cancel(
  _space text, _caller_now bigint, _ids text[], _channel text DEFAULT NULL
) RETURNS TABLE (id text, state text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
  _locked text[];
  _transitions transition[];
BEGIN
  _locked := ARRAY(
    SELECT j.id
      FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
      JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
       FOR UPDATE OF j);
  _now := effective_now(_caller_now);

  UPDATE jobs AS j SET cancel_requested = true
    FROM (SELECT _space AS space, u.id FROM unnest(_locked) AS u (id) OFFSET 0) AS a
   WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id AND j.token IS NOT NULL AND NOT j.cancel_requested;
  IF FOUND AND _channel IS NOT NULL THEN
    PERFORM pg_notify(_channel, 'cancel ' || _space);
  END IF;

  SELECT array_agg(ROW(a.item, j.ctid, NULL, NULL, 'cancelled', 'cancelled', j.attempts, j.crashes, j.run_at,
                       coalesce(j.parked_from, j.available_at), j.last_error, j.failed_at, j.released_for, NULL, NULL, NULL, '', '',
                       false)::transition)
    INTO _transitions
    FROM (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item) OFFSET 0) AS a
    JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
   WHERE j.state = 'ready' AND (a.id IN (SELECT unnest(_locked))) IS TRUE;
  IF _transitions IS NOT NULL THEN
    PERFORM apply_transitions(_space, _now, _transitions);
  END IF;

  RETURN QUERY
  SELECT a.id, found.state
    FROM unnest(_ids) AS a (id)
   CROSS JOIN LATERAL (SELECT j.state FROM jobs AS j WHERE j.space = _space AND j.id = a.id
                       UNION ALL
                       SELECT e.state FROM ended AS e WHERE e.space = _space AND e.id = a.id) AS found;
END $$;


-- name: purge
-- Remove ended jobs, their payloads and their notes for good. Return their ids. A domain that such a job halted goes on.
--
-- Readers of the ledger have read up to (_read_xid, _read_seq), NULL without readers: jobs with later rows stay. At most
-- 10000 later rows are read (FIND_LIMIT in drivers/requests). If there are more, jobs that ended after them stay,
-- too; a row may be committed an hour after its ended_at (MAX_COMMIT_DELAY in model/ledger_reader.py).
--
-- Locks: the rows of the jobs in ended, sorted by id, then the domains that go on; the next reserve assigns their turns
-- (arrivals). Index: the primary keys of ended, notes, ledger and domains. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION purge(
  _space text, _caller_now bigint, _ids text[], _read_xid bigint DEFAULT NULL, _read_seq bigint DEFAULT NULL
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _locked text[];
  _unread text[];
  _unread_since bigint;
  _removed text[];
  _large bigint[];        -- their payloads with rows of their own
  _halting text[];
  _queues text[];         -- of the domains that they halted
  _domains text[];
BEGIN
  IF _read_xid IS NOT NULL THEN
    -- The locks come first, and only locked jobs are removed: a job that ends, or is requeued and ends once more, after
    -- its rows were looked for stays.
    _locked := ARRAY(
      SELECT e.id FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
        JOIN ended AS e ON e.space = ANY (ARRAY[a.space]) AND e.id = a.id
         FOR UPDATE OF e);
    SELECT array_agg(l.job_id), least((array_agg(l.ended_at))[10000], _now) - 3600000000
      INTO _unread, _unread_since
      FROM (SELECT l.job_id, l.ended_at FROM ledger AS l
             WHERE l.space = _space AND (l.xid, l.seq) > (_read_xid::text::xid8, _read_seq)
             ORDER BY l.xid, l.seq LIMIT 10000) AS l;
    _unread_since := CASE WHEN cardinality(_unread) = 10000 THEN _unread_since END;
    _ids := ARRAY(SELECT u.id FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
                   WHERE (u.id IN (SELECT unnest(_locked))) IS TRUE
                     AND u.id NOT IN (SELECT unnest(coalesce(_unread, '{}'))) ORDER BY u.item);
  END IF;
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
             ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND (_unread_since IS NULL OR e.ended_at < _unread_since)
    RETURNING e.*, a.item, e.domain IS NOT NULL
      AND EXISTS (SELECT FROM domains AS d
                   WHERE d.space = _space AND d.queue = e.queue AND d.domain = e.domain AND d.halted_by = e.id
                  OFFSET 0) AS is_halting
  ), recorded AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT r.space, r.id, r.type, r.queue, r.domain, r."offset", r.attempts, '', r.enqueued_at, r.available_at, _now,
           'purged', NULL, '', ''
      FROM removed AS r ORDER BY r.item
  ), notes_removed AS (
    DELETE FROM notes AS n USING removed AS r
     WHERE r.noted AND n.space = ANY (ARRAY[_space]) AND n.job_id = r.id
  )
  SELECT array_agg(r.id), array_agg(r.payload_seq) FILTER (WHERE r.payload_seq IS NOT NULL),
         array_agg(r.id) FILTER (WHERE r.is_halting), array_agg(r.queue) FILTER (WHERE r.is_halting),
         array_agg(r.domain) FILTER (WHERE r.is_halting)
    INTO _removed, _large, _halting, _queues, _domains FROM removed AS r;
  IF _large IS NOT NULL THEN
    DELETE FROM payloads AS p WHERE p.seq = ANY (_large);
  END IF;
  IF _halting IS NOT NULL THEN
    PERFORM clear_halts(_space, _halting, _queues, _domains);
  END IF;
  RETURN coalesce(_removed, '{}');
END $$;


-- name: requeue
-- Make dead or cancelled jobs ready again, in the order of the arrays, after the jobs that are ready now. Return their ids.
-- A job that halted its domain keeps its place, and the domain is not halted any more. A job whose offset another job has,
-- since forget_domain, stays as it is.
--
-- Locks: the rows of the jobs in ended, sorted by id, then the domains that go on. It may wait for a transaction that stores
-- the same offset, and holds no domain then. The next reserve assigns the turns (arrivals). Index: the primary keys of ended
-- and domains, jobs_offset. Shape: see README.md, Stable plans. IS TRUE keeps ended_few out of the plan: by that index the
-- dead letters of the space would be read and locked in its order.
CREATE OR REPLACE FUNCTION requeue(_space text, _caller_now bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _seqs bigint[] := ARRAY(SELECT nextval('jobs_seq_seq') FROM generate_series(1, cardinality(_ids)));
  _repeated text[];       -- ids of jobs whose offset a job before them in the arrays has
  _removed text[];
  _halting text[];
  _queues text[];         -- of the domains that they halted
  _domains text[];
BEGIN
  _repeated := ARRAY(
    SELECT r.id
      FROM (SELECT e.id, row_number() OVER (PARTITION BY e.queue, e.domain, e."offset" ORDER BY a.item) AS place
              FROM unnest(_ids) WITH ORDINALITY AS a (id, item)
             CROSS JOIN LATERAL (SELECT * FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0) AS e
             WHERE e."offset" IS NOT NULL AND e.state IN ('dead', 'cancelled')) AS r
     WHERE r.place > 1);
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
             ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND (e.state IN ('dead', 'cancelled')) IS TRUE
       AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = e.id OFFSET 0)
       AND e.id NOT IN (SELECT unnest(_repeated))
       AND (e."offset" IS NULL
            OR NOT EXISTS (SELECT FROM jobs AS j
                            WHERE j.space = _space AND j.queue = e.queue AND j.domain = e.domain AND j."offset" = e."offset"
                           OFFSET 0))
    RETURNING e.*, a.item, e.domain IS NOT NULL
      AND EXISTS (SELECT FROM domains AS d
                   WHERE d.space = _space AND d.queue = e.queue AND d.domain = e.domain AND d.halted_by = e.id
                  OFFSET 0) AS is_halting
  ), recorded AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT r.space, r.id, r.type, r.queue, r.domain, r."offset", r.attempts, '', r.enqueued_at, r.available_at, _now,
           'requeued', 'ready', '', ''
      FROM removed AS r ORDER BY r.item
  ), arrived AS (
    INSERT INTO arrivals SELECT DISTINCT r.space, r.queue, r.domain FROM removed AS r WHERE r.domain IS NOT NULL
  ), inserted AS (
    INSERT INTO jobs (seq, {fixed_columns}, space, turn, available_at, enqueued_at, noted, last_verb, last_token, last_error,
                      failed_at) OVERRIDING SYSTEM VALUE
    SELECT CASE WHEN r.is_halting THEN r.seq ELSE _seqs[r.item] END, {r.fixed_columns}, r.space, r.domain IS NULL, _now,
           r.enqueued_at, r.noted, r.last_verb, r.last_token, r.last_error, r.failed_at
      FROM removed AS r
     ORDER BY CASE WHEN r."offset" IS NOT NULL THEN ROW(r.queue, r.domain, r."offset") END, r.item
  )
  SELECT array_agg(r.id), array_agg(r.id) FILTER (WHERE r.is_halting), array_agg(r.queue) FILTER (WHERE r.is_halting),
         array_agg(r.domain) FILTER (WHERE r.is_halting)
    INTO _removed, _halting, _queues, _domains FROM removed AS r;
  IF _halting IS NOT NULL THEN
    PERFORM clear_halts(_space, _halting, _queues, _domains);
  END IF;
  RETURN coalesce(_removed, '{}');
END $$;


-- name: trim_expired
-- Remove what is older than its retention, oldest first, at most _limit rows of each table: done and cancelled jobs
-- with their payloads, ledger rows, idempotency keys, registry entries and limit keys. Return how many rows of the first four were removed.
-- Of the idempotency keys whose window has ended, one call looks at ten times _limit at most. Readers of the ledger have
-- read up to (_read_xid, _read_seq), NULL without readers: later rows stay, and the jobs that ended since then. A row
-- may be committed an hour after its ended_at (MAX_COMMIT_DELAY in model/ledger_reader.py).
--
-- Locks: the removed rows (SKIP LOCKED), an advisory lock for the ledger of the space, and the settings of keyed queues.
-- Index: ended_trim, the primary keys of ledger, notes, jobs and ended, dedupe_expiry, registry_expiry, limit_keys_idle,
-- key_changes_queue.
-- Shape: the ledger is trimmed from its front, up to the first row that is too young, and only below the horizon: a
-- row that commits later is never before the trimmed position. enable_sort is off in addition to the common
-- settings: the oldest rows are the first entries of an index, and no plan may read and sort everything to find
-- them.
CREATE OR REPLACE FUNCTION trim_expired(
  _space text, _caller_now bigint, _ended_for bigint, _ledger_for bigint, _limit integer,
  _read_xid bigint DEFAULT NULL, _read_seq bigint DEFAULT NULL,
  OUT jobs integer, OUT ledger integer, OUT dedupe integer, OUT registry integer
) LANGUAGE plpgsql SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _ended_before bigint := _now - _ended_for;
  _horizon xid8;
  _xid xid8;
  _seq bigint;
  _due tid[];
  _large bigint[];        -- the payloads of removed jobs that have rows of their own
  _asked integer;
  _removed integer;
BEGIN
  IF _read_xid IS NOT NULL THEN
    _ended_before := least(_ended_before, _now - 3600000001, (
      SELECT l.ended_at FROM ledger AS l
       WHERE l.space = _space AND (l.xid, l.seq) > (_read_xid::text::xid8, _read_seq)
       ORDER BY l.xid, l.seq LIMIT 1) - 3600000001);
  END IF;
  WITH removed AS (
    DELETE FROM ended AS e
     WHERE e.ctid = ANY (ARRAY(SELECT o.ctid FROM ended AS o
                                WHERE o.space = _space AND o.state <> 'dead' AND o.ended_at <= _ended_before
                                ORDER BY o.ended_at LIMIT _limit FOR UPDATE SKIP LOCKED))
    RETURNING e.id, e.noted, e.payload_seq
  ), notes_removed AS (
    DELETE FROM notes AS n USING removed AS r
     WHERE r.noted AND n.space = ANY (ARRAY[_space]) AND n.job_id = r.id
  )
  SELECT count(*), array_agg(r.payload_seq) FILTER (WHERE r.payload_seq IS NOT NULL) INTO jobs, _large FROM removed AS r;
  IF _large IS NOT NULL THEN
    DELETE FROM payloads AS p WHERE p.seq = ANY (_large);
  END IF;

  -- One transaction at a time: spaces.trimmed_* and the removed rows must agree.
  PERFORM pg_advisory_xact_lock(1212106566, hashtext(_space) | (-2147483648)::integer);
  _horizon := (ledger_horizon()::text::bigint + (SELECT ledger_shift(o) FROM origin AS o))::text::xid8;
  WITH oldest AS (
    SELECT l.xid, l.seq, l.ended_at FROM ledger AS l
     WHERE l.space = _space AND l.xid < _horizon
       AND (l.xid, l.seq) <= (coalesce(_read_xid::text::xid8, _horizon), coalesce(_read_seq, 9223372036854775807))
     ORDER BY l.xid, l.seq LIMIT _limit
  ), old AS (
    SELECT o.xid, o.seq, bool_and(o.ended_at <= _now - _ledger_for) OVER (ORDER BY o.xid, o.seq) AS is_old
      FROM oldest AS o
  )
  SELECT count(*) INTO ledger FROM old AS o WHERE o.is_old;
  IF ledger > 0 THEN
    SELECT l.xid, l.seq INTO _xid, _seq FROM ledger AS l
     WHERE l.space = _space AND l.xid < _horizon ORDER BY l.xid, l.seq OFFSET ledger - 1 LIMIT 1;
    DELETE FROM ledger AS l WHERE l.space = _space AND (l.xid, l.seq) <= (_xid, _seq);
    INSERT INTO spaces VALUES (_space, _xid, _seq)
    ON CONFLICT (space) DO UPDATE SET trimmed_xid = excluded.trimmed_xid, trimmed_seq = excluded.trimmed_seq;
  END IF;

  -- The key of an open, dead or cancelled job stays: the job may run, or be requeued. The next look at that key is as far
  -- in the future as the end of its window is in the past, at least an hour: so a key is read only a few times, however
  -- long its job stays. The locks come first: the statements after them see the jobs of those who held the locks before.
  dedupe := 0;
  FOR _round IN 1 .. 10 LOOP
    _asked := _limit - dedupe;
    _due := ARRAY(SELECT o.ctid FROM dedupe AS o
                   WHERE o.space = _space AND o.until > 0 AND greatest(o.until, o.check_at) <= _now
                   ORDER BY greatest(o.until, o.check_at) LIMIT _asked FOR UPDATE SKIP LOCKED);
    DELETE FROM dedupe AS d
     WHERE d.ctid = ANY (_due)
       AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = d.space AND j.id = d.job_id OFFSET 0)
       AND coalesce((SELECT e.state FROM ended AS e WHERE e.space = d.space AND e.id = d.job_id), 'done') = 'done';
    GET DIAGNOSTICS _removed = ROW_COUNT;
    UPDATE dedupe AS d SET check_at = _now + greatest(_now - d.until, 3600000000) WHERE d.ctid = ANY (_due);
    dedupe := dedupe + _removed;
    EXIT WHEN cardinality(_due) < _asked OR dedupe = _limit;
  END LOOP;

  DELETE FROM registry AS r
   WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM registry AS o WHERE o.space = _space AND o.expires_at <= _now
                              ORDER BY o.expires_at LIMIT _limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS registry = ROW_COUNT;

  -- Keys, last: no reserve of their queues runs until the end of this transaction.
  PERFORM FROM settings AS s WHERE s.space = _space AND s.keyed ORDER BY s.queue, s.type FOR UPDATE;
  IF FOUND THEN
    _due := ARRAY(SELECT l.ctid FROM limit_keys AS l
                   WHERE l.space = _space AND NOT l.parked AND l.idle_at <= _now ORDER BY l.idle_at LIMIT _limit);
    UPDATE limit_keys AS l
       SET idle_at = coalesce((SELECT key_idle_at(s.key_rate, s.key_burst, l.level, l.level_at, l.held_until)
                                 FROM settings AS s
                                WHERE s.space = _space AND s.queue = l.queue AND s.type = ''), 0)
     WHERE l.ctid = ANY (_due);
    DELETE FROM limit_keys AS l
     WHERE l.ctid = ANY (ARRAY(SELECT l.ctid FROM limit_keys AS l
                                WHERE l.space = _space AND NOT l.parked AND l.idle_at <= _now
                                ORDER BY l.idle_at LIMIT _limit));
    UPDATE settings AS s SET keyed = false
     WHERE s.space = _space AND s.keyed AND s.key_max_inflight IS NULL AND s.key_rate IS NULL
       AND NOT EXISTS (SELECT FROM limit_keys AS l WHERE l.space = _space AND l.queue = s.queue OFFSET 0)
       AND NOT EXISTS (SELECT FROM key_changes AS c WHERE c.space = _space AND c.queue = s.queue OFFSET 0);
  END IF;
  DELETE FROM key_changes AS c
   WHERE c.ctid = ANY (ARRAY(SELECT c.ctid FROM key_changes AS c
                              WHERE c.space = _space
                                AND NOT EXISTS (SELECT FROM settings AS s
                                                 WHERE s.space = _space AND s.queue = c.queue AND s.type = '' AND s.keyed
                                                OFFSET 0)
                              LIMIT _limit FOR UPDATE SKIP LOCKED));
END $$;
