-- Apply transitions to jobs whose rows this transaction has locked: insert the ledger rows, then update the jobs
-- that stay or move the others to `ended`. Return the domains of the jobs (NULL: none), with the offsets of those that
-- left and the ids of those that are dead. A job that stays may no longer be the first of its domain. The caller passes the
-- turns, once and last: a second pass_turns in one transaction would lock domains out of order. The limit keys of the jobs
-- are entered in key_changes.
--
-- Locks: none. Index: none; rows are found by ctid, which the row lock keeps valid. A transition without a verb
-- (cancel of a ready job) leaves last_verb and last_token unchanged.
-- Shape: ack.sql has its own form of the second half, because a batch of acks needs no transitions.
CREATE OR REPLACE FUNCTION end_leases(
  _space text, _now bigint, _transitions transition[],
  OUT queues text[], OUT domains text[], OUT offsets bigint[], OUT dead text[]
) LANGUAGE plpgsql AS $$
DECLARE
  _kept_queues text[];   -- of jobs with domains that stay
  _kept_domains text[];
  _ready_queues text[];  -- of jobs with limit keys that stay
  _ready_keys text[];
  _left_queues text[];   -- of jobs with limit keys that leave, and were not parked
  _left_keys text[];
BEGIN
  INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at, available_at,
                      reserved_at, started_at, ended_at, ending, state, detail, error)
  SELECT _space, j.id, j.type, j.queue, j.domain, j."offset", j.attempts, j.fence, j.worker, j.enqueued_at,
         coalesce(j.parked_from, j.available_at), j.reserved_at, coalesce(t.started_at, j.started_at),
         _now, t.ending, t.state, t.detail, t.error
    FROM unnest(_transitions) AS t JOIN jobs AS j ON j.ctid = t.job_ctid
   ORDER BY t.item;

  WITH changed AS (
    UPDATE jobs AS j
       SET state = 'ready', attempts = t.attempts, crashes = t.crashes, run_at = t.run_at, available_at = t.available_at,
           released_for = t.released_for, last_error = t.last_error, failed_at = t.failed_at, last_verb = t.verb,
           last_token = j.token, token = NULL, fence = NULL, expires_at = NULL, check_at = NULL, reserved_at = NULL,
           started_at = NULL, worker = '', prefetched = false, suspect = t.suspect
      FROM unnest(_transitions) AS t WHERE j.ctid = t.job_ctid AND t.state = 'ready'
    RETURNING j.queue, j.domain, j.limit_key
  )
  SELECT array_agg(c.queue) FILTER (WHERE c.domain IS NOT NULL), array_agg(c.domain) FILTER (WHERE c.domain IS NOT NULL),
         array_agg(c.queue) FILTER (WHERE c.limit_key IS NOT NULL),
         array_agg(c.limit_key) FILTER (WHERE c.limit_key IS NOT NULL)
    INTO _kept_queues, _kept_domains, _ready_queues, _ready_keys
    FROM changed AS c;

  WITH removed AS (
    DELETE FROM jobs AS j USING unnest(_transitions) AS t WHERE j.ctid = t.job_ctid AND t.state <> 'ready'
    RETURNING j.*, t.state AS end_state, t.verb, t.available_at AS end_available_at, t.run_at AS end_run_at,
              t.attempts AS end_attempts, t.crashes AS end_crashes, t.last_error AS end_error,
              t.failed_at AS end_failed_at, t.dead_reason, t.dead_at, t.result
  ), moved AS (
    INSERT INTO ended ({fixed_columns}, space, seq, state, available_at, enqueued_at, ended_at, run_at, attempts,
                       crashes, cancel_requested, noted, last_verb, last_token, last_error, failed_at, dead_reason, dead_at,
                       result)
    SELECT {r.fixed_columns}, r.space, r.seq, r.end_state, r.end_available_at, r.enqueued_at, _now, r.end_run_at,
           r.end_attempts, r.end_crashes, r.cancel_requested, r.noted, coalesce(r.verb, r.last_verb),
           coalesce(r.token, r.last_token), r.end_error, r.end_failed_at, r.dead_reason, r.dead_at, r.result
      FROM removed AS r
  )
  SELECT array_agg(r.queue) FILTER (WHERE r.domain IS NOT NULL), array_agg(r.domain) FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r."offset") FILTER (WHERE r.domain IS NOT NULL),
         array_agg(CASE WHEN r.end_state = 'dead' THEN r.id END) FILTER (WHERE r.domain IS NOT NULL),
         array_agg(r.queue) FILTER (WHERE r.limit_key IS NOT NULL AND r.parked_from IS NULL),
         array_agg(r.limit_key) FILTER (WHERE r.limit_key IS NOT NULL AND r.parked_from IS NULL)
    INTO queues, domains, offsets, dead, _left_queues, _left_keys FROM removed AS r;
  IF _kept_domains IS NOT NULL THEN
    queues := queues || _kept_queues;
    domains := domains || _kept_domains;
    offsets := offsets || array_fill(NULL::bigint, ARRAY[cardinality(_kept_domains)]);
    dead := dead || array_fill(NULL::text, ARRAY[cardinality(_kept_domains)]);
  END IF;

  -- Without a verb: a cancelled job that was ready in a lane. Its row is no lease, see unpark_jobs.sql.
  IF _ready_keys IS NOT NULL OR _left_keys IS NOT NULL THEN
    PERFORM note_key_changes(_space, _ready_queues || _left_queues, _ready_keys || _left_keys,
                             (_transitions[1]).verb IS NULL);
  END IF;
END $$;
