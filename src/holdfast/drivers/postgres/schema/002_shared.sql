-- What several verbs stand on. Functions bear the number of their shape: a later version adds reserve_2 and leaves
-- reserve_1 in place, so that programs of an older Holdfast go on beside newer ones. What a function sets holds
-- while it runs, also behind a pooling proxy: plans that cannot drift, and no wait for a lock without an end.

-- The instant that judges a call: the store's own clock, unless the caller brings one.
CREATE FUNCTION instant_1(_given bigint) RETURNS bigint LANGUAGE sql VOLATILE
RETURN coalesce(_given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- One writer at a time decides who has the turn in a domain. Locks of the transaction, in a fixed order, on a bounded
-- number of buckets: a batch may name ten thousand domains, and the server's lock table is small.
CREATE FUNCTION lock_domains_1(_space text, _queues text[], _domains text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _bucket integer;
BEGIN
  FOR _bucket IN
    SELECT DISTINCT hashtextextended(_space || E'\n' || d.queue || E'\n' || d.domain, 0) & 511 AS bucket
      FROM unnest(_queues, _domains) AS d (queue, domain) ORDER BY bucket
  LOOP
    PERFORM pg_advisory_xact_lock(1212106566, _bucket);
  END LOOP;
END $$;

-- The first job of each of these domains gets the turn, unless somebody has it. Relies on jobs_domain.
CREATE FUNCTION pass_turns_1(_space text, _queues text[], _domains text[]) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  PERFORM lock_domains_1(_space, _queues, _domains);
  UPDATE jobs SET turn = true
   WHERE ctid = ANY (ARRAY(
     SELECT first.row
       FROM unnest(_queues, _domains) AS d (queue, domain)
      CROSS JOIN LATERAL (SELECT j.ctid AS row, j.turn FROM jobs AS j
                           WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain
                           ORDER BY j.turn DESC, j.seq LIMIT 1) AS first
      WHERE NOT first.turn));
END $$;

-- What a job's row becomes when its lease ends, and what the ledger says of it: Outcome in model/decide.py.
CREATE TYPE outcome_1 AS (
  item integer, place tid, verb text, started_at bigint, ending text, state text, attempts integer, crashes integer,
  run_at bigint, available_at bigint, last_error text, failed_at bigint, released_for bigint, dead_reason text,
  dead_at bigint, result bytea, detail text, error text
);

-- Apply outcomes to jobs whose rows this transaction has locked: ledger rows, then the jobs, then the turns.
CREATE FUNCTION apply_1(_space text, _now bigint, _outcomes outcome_1[]) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  _queues text[];
  _domains text[];
BEGIN
  INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at, available_at,
                      reserved_at, started_at, ended_at, ending, state, detail, error)
  SELECT _space, j.id, j.type, j.queue, j.domain, j."offset", j.attempts, j.fence, j.worker, j.enqueued_at,
         j.available_at, j.reserved_at, coalesce(o.started_at, j.started_at), _now, o.ending, o.state, o.detail, o.error
    FROM unnest(_outcomes) AS o JOIN jobs AS j ON j.ctid = o.place
   ORDER BY o.item;

  UPDATE jobs AS j
     SET state = 'ready', attempts = o.attempts, crashes = o.crashes, run_at = o.run_at, available_at = o.available_at,
         released_for = o.released_for, last_error = o.last_error, failed_at = o.failed_at, last_verb = o.verb,
         last_token = j.token, token = NULL, fence = NULL, expires_at = NULL, check_at = NULL, reserved_at = NULL,
         started_at = NULL, worker = ''
    FROM unnest(_outcomes) AS o WHERE j.ctid = o.place AND o.state = 'ready';

  WITH gone AS (
    DELETE FROM jobs AS j USING unnest(_outcomes) AS o WHERE j.ctid = o.place AND o.state <> 'ready'
    RETURNING j.*, o.state AS after, o.verb, o.available_at AS available_then, o.run_at AS run_then,
              o.attempts AS attempted, o.crashes AS crashed, o.last_error AS error, o.failed_at AS failed_then,
              o.dead_reason, o.dead_at, o.result
  ), kept AS (
    INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at,
                       attempts, max_attempts, crashes, max_crashes, cancel_requested, noted, last_verb, last_token,
                       created_at, requested_run_at, timeout, idempotency_key, domain, "offset", name, meta, webhook,
                       signature, last_error, failed_at, dead_reason, dead_at, result, payload)
    SELECT g.seq, g.space, g.id, g.queue, g.type, g.priority, g.after, g.available_then, g.enqueued_at, _now,
           g.run_then, g.attempted, g.max_attempts, g.crashed, g.max_crashes, g.cancel_requested, g.noted, g.verb,
           g.token, g.created_at, g.requested_run_at, g.timeout, g.idempotency_key, g.domain, g."offset", g.name,
           g.meta, g.webhook, g.signature, g.error, g.failed_then, g.dead_reason, g.dead_at, g.result, g.payload
      FROM gone AS g
  )
  SELECT array_agg(g.queue), array_agg(g.domain) INTO _queues, _domains FROM gone AS g WHERE g.domain IS NOT NULL;

  IF _queues IS NOT NULL THEN
    PERFORM pass_turns_1(_space, _queues, _domains);
  END IF;
END $$;
