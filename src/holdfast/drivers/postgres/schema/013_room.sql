-- Room for the second version of a row: every job is written twice in its life here, once as it arrives and once as it is
-- leased. With less, the index of ids splits its pages or cleans them up in the middle of a reserve.
ALTER INDEX jobs_pkey SET (fillfactor = 50);

-- ack_1 without its sort: the ledger's numbers are drawn before the jobs are deleted, in whatever order that happens.
CREATE FUNCTION ack_2(
  _space text, _given bigint, _ids text[], _tokens text[], _started bigint[], _results bytea[], _details text[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint := instant_1(_given);
  _ended bigint;
  _seqs bigint[] := ARRAY(SELECT nextval('ledger_seq') FROM generate_series(1, cardinality(_ids)));
  _queues text[];
  _domains text[];
BEGIN
  WITH gone AS (
    DELETE FROM jobs AS j
     USING (SELECT _space AS space, u.* FROM unnest(_ids, _tokens, _started, _results, _details) WITH ORDINALITY
                   AS u (id, token, started_at, result, detail, item) OFFSET 0) AS a  -- see 014_plans
     WHERE j.space = a.space AND j.id = a.id AND j.token = a.token AND j.expires_at > _now
    RETURNING j.*, a.item, a.started_at AS began_at, a.result, coalesce(a.detail, '') AS detail
  ), kept AS (
    INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at,
                       attempts, max_attempts, crashes, max_crashes, cancel_requested, noted, last_verb, last_token,
                       created_at, requested_run_at, timeout, idempotency_key, domain, "offset", name, meta, webhook,
                       signature, last_error, failed_at, result, payload)
    SELECT g.seq, g.space, g.id, g.queue, g.type, g.priority, 'done', g.available_at, g.enqueued_at, _now, g.run_at,
           g.attempts, g.max_attempts, g.crashes, g.max_crashes, g.cancel_requested, g.noted, 'ack', g.token,
           g.created_at, g.requested_run_at, g.timeout, g.idempotency_key, g.domain, g."offset", g.name, g.meta,
           g.webhook, g.signature, g.last_error, g.failed_at, g.result, g.payload
      FROM gone AS g
  ), told AS (
    INSERT INTO ledger (seq, space, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at,
                        available_at, reserved_at, started_at, ended_at, ending, state, detail, error)
    SELECT _seqs[g.item], g.space, g.id, g.type, g.queue, g.domain, g."offset", g.attempts, g.fence, g.worker,
           g.enqueued_at, g.available_at, g.reserved_at, coalesce(g.began_at, g.started_at), _now, 'acked', 'done',
           g.detail, ''
      FROM gone AS g
  )
  SELECT count(*), array_agg(g.queue) FILTER (WHERE g.domain IS NOT NULL),
         array_agg(g.domain) FILTER (WHERE g.domain IS NOT NULL)
    INTO _ended, _queues, _domains FROM gone AS g;

  IF _domains IS NOT NULL THEN
    PERFORM pass_turns_1(_space, _queues, _domains);
  END IF;

  IF _ended < cardinality(_ids) THEN  -- those that have ended just now look like repeated ones, which are not refused
    RETURN QUERY
    SELECT r.* FROM (SELECT array_agg(i.item) AS items, array_agg('ack'::text) AS verbs
                       FROM generate_series(1, cardinality(_ids)) AS i (item)) AS a
     CROSS JOIN LATERAL refused_1(_space, _now, a.items, _ids, _tokens, a.verbs) AS r;
  END IF;
END $$;
