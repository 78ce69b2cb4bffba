-- Remove what is older than its retention, oldest first, at most _limit rows of each table: done and cancelled jobs,
-- ledger rows, idempotency keys, registry entries and limit keys. Return how many rows of the first four were removed.
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
    RETURNING e.id, e.noted
  ), notes_removed AS (
    DELETE FROM notes AS n USING removed AS r
     WHERE r.noted AND n.space = ANY (ARRAY[_space]) AND n.job_id = r.id
  )
  SELECT count(*) INTO jobs FROM removed;

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
