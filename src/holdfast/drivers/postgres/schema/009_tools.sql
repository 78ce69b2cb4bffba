-- Make dead or cancelled jobs ready again, in the order asked, at the end of their line. True where it was done.
CREATE FUNCTION requeue_1(_space text, _given bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  _now bigint := instant_1(_given);
  _done text[];
BEGIN
  WITH gone AS (
    DELETE FROM ended AS e USING unnest(_ids) WITH ORDINALITY AS a (id, item)
     WHERE e.space = _space AND e.id = a.id AND e.state IN ('dead', 'cancelled')
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

-- Remove ended jobs for good.
CREATE FUNCTION purge_1(_space text, _given bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  _now bigint := instant_1(_given);
  _done text[];
BEGIN
  WITH gone AS (
    DELETE FROM ended AS e USING unnest(_ids) WITH ORDINALITY AS a (id, item)
     WHERE e.space = _space AND e.id = a.id
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

-- End ready jobs, ask running ones to stop; the state of each known job afterwards. Rows first, then domains, as
-- settle does: two of them never wait for each other in a circle.
CREATE FUNCTION cancel_1(_space text, _given bigint, _ids text[]) RETURNS TABLE (id text, state text) LANGUAGE plpgsql
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
    DELETE FROM jobs AS j USING unnest(_ids) WITH ORDINALITY AS a (id, item)
     WHERE j.space = _space AND j.id = a.id AND j.state = 'ready'
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

-- Retention, oldest first, at most _limit of each. The ledger is trimmed from its front, up to the first row that is
-- too young, and only below the oldest running transaction: what commits later is never behind the mark.
CREATE FUNCTION trim_1(
  _space text, _given bigint, _ended_for bigint, _ledger_for bigint, _limit integer,
  OUT jobs integer, OUT ledger integer, OUT dedupe integer, OUT registry integer
) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET lock_timeout = '30s' AS $$
#variable_conflict use_column
DECLARE
  _now bigint := instant_1(_given);
  _horizon xid8;
  _xid xid8;
  _seq bigint;
BEGIN
  WITH gone AS (
    DELETE FROM ended AS e
     WHERE e.ctid = ANY (ARRAY(SELECT o.ctid FROM ended AS o
                                WHERE o.space = _space AND o.state <> 'dead' AND o.ended_at <= _now - _ended_for
                                ORDER BY o.ended_at LIMIT _limit FOR UPDATE SKIP LOCKED))
    RETURNING e.id, e.noted
  ), unnoted AS (
    DELETE FROM notes AS n USING gone AS g WHERE g.noted AND n.space = _space AND n.job_id = g.id
  )
  SELECT count(*) INTO jobs FROM gone;

  -- One at a time: the mark and the rows below it belong together.
  PERFORM pg_advisory_xact_lock(1212106566, hashtext(_space) | (-2147483648)::integer);
  _horizon := horizon_1();
  WITH oldest AS (
    SELECT l.xid, l.seq, l.ended_at FROM ledger AS l
     WHERE l.space = _space AND l.xid < _horizon ORDER BY l.xid, l.seq LIMIT _limit
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

  DELETE FROM dedupe AS d
   WHERE d.ctid = ANY (ARRAY(
     SELECT o.ctid FROM dedupe AS o
      WHERE o.space = _space AND o.until <= _now
        AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = o.space AND j.id = o.job_id)
        AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = o.space AND e.id = o.job_id)
      ORDER BY o.until LIMIT _limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS dedupe = ROW_COUNT;

  DELETE FROM registry AS r
   WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM registry AS o WHERE o.space = _space AND o.expires_at <= _now
                              ORDER BY o.expires_at LIMIT _limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS registry = ROW_COUNT;
END $$;
