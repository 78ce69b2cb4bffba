-- Acknowledge a batch of jobs, each named once, without registry writes: by far the most common settlement. The jobs
-- move to `ended` with one ledger row each. Return rows only for refused acks.
--
-- Locks: the rows of the jobs, sorted by id, then their domains. Index: the primary key of jobs.
-- Shape: one statement, no transitions. The condition names the token and not the state: only a job in flight has a
-- token, and on an empty table the planner would use a condition on the state to read the index of all leases.
-- Ledger numbers are drawn before the delete, in batch order; sorting the deleted rows instead took longer. See
-- README.md, Stable plans.
CREATE OR REPLACE FUNCTION ack(
  _space text, _caller_now bigint, _ids text[], _tokens text[], _started bigint[], _results bytea[], _details text[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _ended bigint;
  _seqs bigint[] := ARRAY(SELECT nextval('ledger_seq') FROM generate_series(1, cardinality(_ids)));
  _queues text[];
  _domains text[];
  _offsets bigint[];
  _key_queues text[];
  _keys text[];
BEGIN
  WITH removed AS (
    DELETE FROM jobs AS j
     USING (SELECT _space AS space, u.* FROM unnest(_ids, _tokens, _started, _results, _details) WITH ORDINALITY
                   AS u (id, token, started_at, result, detail, item) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id AND j.token = a.token AND j.expires_at > _now
    RETURNING j.*, a.item, a.started_at AS began_at, a.result, coalesce(a.detail, '') AS detail
  ), moved AS (
    INSERT INTO ended ({fixed_columns}, space, seq, state, available_at, enqueued_at, ended_at, run_at, attempts,
                       crashes, cancel_requested, noted, last_verb, last_token, last_error, failed_at, result)
    SELECT {r.fixed_columns}, r.space, r.seq, 'done', r.available_at, r.enqueued_at, _now, r.run_at, r.attempts,
           r.crashes, r.cancel_requested, r.noted, 'ack', r.token, r.last_error, r.failed_at, r.result
      FROM removed AS r
  ), recorded AS (
    INSERT INTO ledger (seq, space, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at,
                        available_at, reserved_at, started_at, ended_at, ending, state, detail, error)
    SELECT _seqs[r.item], r.space, r.id, r.type, r.queue, r.domain, r."offset", r.attempts, r.fence, r.worker,
           r.enqueued_at, r.available_at, r.reserved_at, coalesce(r.began_at, r.started_at), _now, 'acked', 'done',
           r.detail, ''
      FROM removed AS r
  )
  SELECT count(*), array_agg(r.queue) FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r.domain) FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r."offset") FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r.queue) FILTER (WHERE r.limit_key IS NOT NULL),
         array_agg(r.limit_key) FILTER (WHERE r.limit_key IS NOT NULL)
    INTO _ended, _queues, _domains, _offsets, _key_queues, _keys FROM removed AS r;

  IF _domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _queues, _domains, _offsets, NULL, true);
  END IF;
  IF _keys IS NOT NULL THEN
    PERFORM note_key_changes(_space, _key_queues, _keys, false);
  END IF;

  IF _ended < cardinality(_ids) THEN
    -- Check the whole batch: an ack that succeeded just now looks like a repeated one, which is not refused.
    RETURN QUERY
    SELECT r.* FROM (SELECT array_agg(i.item) AS items, array_agg('ack'::text) AS verbs
                       FROM generate_series(1, cardinality(_ids)) AS i (item)) AS a
     CROSS JOIN LATERAL refusals(_space, _now, a.items, _ids, _tokens, a.verbs) AS r;
  END IF;
END $$;
