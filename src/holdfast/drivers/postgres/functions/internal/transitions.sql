-- What the end of a lease makes of its job, and how a batch of transitions is applied.

-- name: after_expiry
-- Return the transition of a job whose lease expired: model/transition.py after_expiry, in SQL. A job that had not begun
-- gets its attempt back and is a suspect; after an outage of the store no crash is counted (law L7).
--
-- Locks: none; the caller has locked the row. Index: none. Called once per job: no settings, no queries.
CREATE OR REPLACE FUNCTION after_expiry(_item integer, _job_ctid tid, j jobs, _now bigint, _in_outage boolean)
RETURNS transition LANGUAGE plpgsql STABLE AS $$
DECLARE
  t transition;
  _begun boolean := NOT j.prefetched OR j.started_at IS NOT NULL;
  _counts_crash boolean := _begun AND NOT _in_outage;
BEGIN
  t.item := _item;
  t.job_ctid := _job_ctid;
  -- No settlement has one of these verbs, so none is a repeat of an expiry (law L6).
  t.verb := CASE WHEN _counts_crash THEN 'expired' ELSE 'expired uncounted' END;
  t.attempts := CASE WHEN _begun THEN j.attempts ELSE greatest(0, j.attempts - 1) END;
  t.crashes := CASE WHEN _counts_crash THEN least(j.crashes, 2147483646) + 1 ELSE j.crashes END;  -- saturates
  t.last_error := j.last_error;
  t.failed_at := j.failed_at;
  t.released_for := 0;
  t.run_at := j.run_at;
  t.available_at := j.available_at;
  t.detail := CASE WHEN NOT _begun THEN 'not begun' WHEN _in_outage THEN 'outage of the store' ELSE '' END;
  t.error := '';
  t.ending := 'expired';
  t.suspect := NOT _begun;
  IF j.cancel_requested THEN
    t.state := 'cancelled';
    t.ending := 'cancelled';
    t.detail := 'lease expired';
  ELSIF _begun AND j.attempts >= j.max_attempts THEN
    t.state := 'dead';
    t.dead_reason := 'lease expired';
    t.dead_at := _now;
  ELSIF _begun AND t.crashes >= j.max_crashes THEN
    t.state := 'dead';
    t.dead_reason := 'poison';
    t.dead_at := _now;
  ELSE
    t.state := 'ready';
    t.run_at := NULL;
    t.available_at := least(j.expires_at, _now);
  END IF;
  RETURN t;
END $$;


-- name: after_settlement
-- Return the transition of a job whose lease a valid settlement ends: model/transition.py after_settlement, in SQL.
--
-- Locks: none; the caller has locked the row. Index: none. Called once per job: no settings, no queries.
CREATE OR REPLACE FUNCTION after_settlement(
  _item integer, _job_ctid tid, j jobs, _now bigint, _verb text, _started bigint, _detail text, _result bytea,
  _delay bigint, _run_at bigint, _error text, _crashed boolean, _reason text, _budget bigint
) RETURNS transition LANGUAGE plpgsql STABLE AS $$
DECLARE
  t transition;
BEGIN
  t.item := _item;
  t.job_ctid := _job_ctid;
  t.verb := _verb;
  t.started_at := _started;
  t.attempts := j.attempts;
  t.crashes := j.crashes;
  t.run_at := j.run_at;
  t.available_at := j.available_at;
  t.last_error := j.last_error;
  t.failed_at := j.failed_at;
  t.released_for := 0;
  t.detail := _detail;
  t.error := '';
  t.suspect := false;

  IF _verb = 'ack' THEN
    t.ending := 'acked';
    t.state := 'done';
    t.result := _result;

  ELSIF j.cancel_requested THEN
    t.ending := 'cancelled';
    t.state := 'cancelled';
    IF _verb = 'release' THEN
      t.attempts := greatest(0, j.attempts - 1);
    ELSE
      t.error := _error;
    END IF;
    IF t.error <> '' THEN
      t.last_error := t.error;
      t.failed_at := _now;
    END IF;
    IF _detail = '' THEN
      t.detail := 'cancelled at ' || _verb;
    END IF;

  ELSIF _verb = 'retry' THEN
    t.ending := 'retried';
    t.crashes := CASE WHEN _crashed THEN least(j.crashes, 2147483646) + 1 ELSE 0 END;
    t.last_error := _error;
    t.failed_at := _now;
    t.error := _error;
    IF j.attempts >= j.max_attempts THEN
      t.dead_reason := 'attempts exhausted';
    ELSIF t.crashes >= j.max_crashes THEN
      t.dead_reason := 'poison';
    END IF;
    IF t.dead_reason IS NULL THEN
      t.state := 'ready';
      t.run_at := coalesce(_run_at, CASE WHEN _delay > 0 THEN _now + _delay END);
      t.available_at := coalesce(t.run_at, _now);
    ELSE
      t.state := 'dead';
      t.dead_at := _now;
    END IF;

  ELSIF _verb = 'fail' THEN
    t.ending := 'failed';
    t.state := 'dead';
    t.last_error := _error;
    t.failed_at := _now;
    t.error := _error;
    t.dead_reason := _reason;
    t.dead_at := _now;

  ELSE
    t.ending := 'released';
    t.suspect := j.suspect;
    t.attempts := greatest(0, j.attempts - 1);
    -- A row that was changed by hand must not fail the batch: no number here exceeds its range.
    t.released_for := least(j.released_for, 253402300799999999) + _delay + greatest(0, _now - greatest(0, j.reserved_at));
    IF _delay > 0 THEN
      t.run_at := _now + _delay;
      t.available_at := _now + _delay;
    END IF;
    IF t.released_for > _budget THEN
      t.state := 'dead';
      t.dead_reason := 'released too long';
      t.dead_at := _now;
    ELSE
      t.state := 'ready';
    END IF;
  END IF;
  RETURN t;
END $$;


-- name: apply_transitions
-- Apply transitions to jobs whose rows this transaction has locked (end_leases), and pass the turns of their domains.
-- For a verb that does so once.
--
-- Locks: the domains of the jobs (pass_turns). Index: none.
CREATE OR REPLACE FUNCTION apply_transitions(_space text, _now bigint, _transitions transition[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _ended record;
BEGIN
  SELECT e.* INTO _ended FROM end_leases(_space, _now, _transitions) AS e;
  IF _ended.domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _ended.queues, _ended.domains, _ended.offsets, _ended.dead, false);
  END IF;
END $$;


-- name: end_expired
-- End expired leases, oldest first, in these queues (NULL: all queues). With _worker: end all leases of that worker,
-- which is known to be dead. Return how many leases ended, and the domains of the jobs (see end_leases).
--
-- Locks: the rows of the leases, SKIP LOCKED: it never waits for a row that another session is settling. Index:
-- jobs_leased.
-- Shape: check_at is at or before expires_at. A lease that was extended is found here once per lease length and its
-- check_at is moved forward; these rows do not count against _limit.
CREATE OR REPLACE FUNCTION end_expired(
  _space text, _queues text[], _worker text, _limit integer, _now bigint,
  OUT ended integer, OUT queues text[], OUT domains text[], OUT offsets bigint[], OUT dead text[]
) LANGUAGE plpgsql AS $$
DECLARE
  _leased tid[];
  _transitions transition[];
BEGIN
  IF _queues IS NULL THEN
    -- Skip from one queue to the next in the index.
    _queues := ARRAY(
      WITH RECURSIVE leased (queue) AS (
        SELECT (SELECT j.queue FROM jobs AS j WHERE j.space = _space AND j.state = 'inflight' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM jobs AS j WHERE j.space = _space AND j.state = 'inflight' AND j.queue > l.queue
                 ORDER BY j.queue LIMIT 1)
          FROM leased AS l WHERE l.queue IS NOT NULL
      )
      SELECT l.queue FROM leased AS l WHERE l.queue IS NOT NULL);
  END IF;

  IF _worker IS NULL THEN
    LOOP
      UPDATE jobs AS j SET check_at = j.expires_at
       WHERE j.ctid = ANY (ARRAY(
         SELECT due.row
           FROM unnest(_queues) AS q (queue)
          CROSS JOIN LATERAL (SELECT j.ctid AS row FROM jobs AS j
                               WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight'
                                 AND j.check_at <= _now AND j.expires_at > j.check_at
                               ORDER BY j.check_at LIMIT 1000 FOR UPDATE SKIP LOCKED) AS due));
      EXIT WHEN NOT FOUND;
    END LOOP;
    SELECT array_agg(due.row ORDER BY due.expires_at, due.seq) INTO _leased
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row, j.expires_at, j.seq FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.check_at <= _now
                            AND j.expires_at <= _now
                          ORDER BY j.check_at LIMIT _limit FOR UPDATE SKIP LOCKED) AS due;
  ELSE
    SELECT array_agg(held.row ORDER BY held.expires_at, held.seq) INTO _leased
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row, j.expires_at, j.seq FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.worker = _worker
                          FOR UPDATE SKIP LOCKED) AS held;
  END IF;
  IF _leased IS NULL THEN
    ended := 0;
    RETURN;
  END IF;

  _transitions := ARRAY(
    SELECT after_expiry(l.item::integer, l.job_ctid, j, _now, false)
      FROM unnest(_leased[:_limit]) WITH ORDINALITY AS l (job_ctid, item) JOIN jobs AS j ON j.ctid = l.job_ctid
     ORDER BY l.item);
  SELECT e.* INTO queues, domains, offsets, dead FROM end_leases(_space, _now, _transitions) AS e;
  ended := cardinality(_transitions);
END $$;


-- name: end_leases
-- Apply transitions to jobs whose rows this transaction has locked: insert the ledger rows, then update the jobs
-- that stay or move the others to `ended`. Return the domains of the jobs (NULL: none), with the offsets of those that
-- left and the ids of those that are dead. A job that stays may no longer be the first of its domain. The caller passes the
-- turns, once and last: a second pass_turns in one transaction would lock domains out of order. The limit keys of the jobs
-- are entered in key_changes.
--
-- Locks: none. Index: none; rows are found by ctid, which the row lock keeps valid. A transition without a verb
-- (cancel of a ready job) leaves last_verb and last_token unchanged.
-- Shape: ack has its own form of the second half, because a batch of acks needs no transitions.
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

  -- Without a verb: a cancelled job that was ready in a lane. Its row is no lease, see unpark_jobs.
  IF _ready_keys IS NOT NULL OR _left_keys IS NOT NULL THEN
    PERFORM note_key_changes(_space, _ready_queues || _left_queues, _ready_keys || _left_keys,
                             (_transitions[1]).verb IS NULL);
  END IF;
END $$;


-- name: note_endings
-- Enter the offsets of ended jobs in ended_offsets, and halt the domains of dead jobs whose queue says so (law L11). The
-- arrays are those of pass_turns.
--
-- Locks: rows of `domains` and ended_offsets; the caller has locked the domains, so nobody waits for them. Index: the
-- primary keys of settings, domains and ended_offsets.
-- Shape: most offsets end in order and make a range longer by one: one statement for all of them, with one probe each. The
-- range that begins last, at or right behind an offset, is the only one that it can make longer without joining another
-- one. The others are entered as ranges of neighbours: those that join ranges one by one. The largest offset is the largest
-- number: nothing is added to it.
CREATE OR REPLACE FUNCTION note_endings(
  _space text, _now bigint, _queues text[], _domains text[], _offsets bigint[], _dead text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _count integer := cardinality(array_remove(_offsets, NULL));
  _grown integer;
  _new_queues text[];     -- ranges that join others
  _new_domains text[];
  _firsts bigint[];
  _lasts bigint[];
BEGIN
  IF cardinality(array_remove(_dead, NULL)) > 0 THEN
    INSERT INTO domains AS d (space, queue, domain, halted_by, halted_at)
    SELECT DISTINCT ON (e.queue, e.domain) _space, e.queue, e.domain, e.id, _now
      FROM unnest(_queues, _domains, _dead) AS e (queue, domain, id)
     WHERE e.id IS NOT NULL
       AND EXISTS (SELECT FROM settings AS s
                    WHERE s.space = _space AND s.queue = e.queue AND s.type = '' AND s.on_exhausted = 'halt' OFFSET 0)
    ON CONFLICT (space, queue, domain) DO UPDATE SET halted_by = excluded.halted_by, halted_at = excluded.halted_at
     WHERE d.halted_by IS NULL;
  END IF;

  UPDATE ended_offsets AS o SET last = g.place
    FROM (SELECT near.row, e.place
            FROM unnest(_queues, _domains, _offsets) AS e (queue, domain, place)
           CROSS JOIN LATERAL (
             SELECT o.ctid AS row, o.last FROM ended_offsets AS o
              WHERE o.space = _space AND o.queue = e.queue AND o.domain = e.domain
                AND o.first <= least(e.place, 9223372036854775806) + 1
              ORDER BY o.first DESC LIMIT 1) AS near
           WHERE e.place IS NOT NULL AND near.last = e.place - 1 OFFSET 0) AS g
   WHERE o.ctid = g.row;
  GET DIAGNOSTICS _grown = ROW_COUNT;
  IF _grown = _count THEN
    RETURN;
  END IF;

  WITH ranges AS MATERIALIZED (  -- of neighbours in this batch
    SELECT n.*, coalesce(near.last >= n.first - 1, false) AS joins
      FROM (SELECT r.queue, r.domain, min(r.place) AS first, max(r.place) AS last
              FROM (SELECT e.*, e.place - row_number() OVER (PARTITION BY e.queue, e.domain ORDER BY e.place) AS number
                      FROM (SELECT DISTINCT u.queue, u.domain, u.place
                              FROM unnest(_queues, _domains, _offsets) AS u (queue, domain, place)
                             WHERE u.place IS NOT NULL) AS e
                      LEFT JOIN LATERAL (
                        SELECT o.last FROM ended_offsets AS o
                         WHERE o.space = _space AND o.queue = e.queue AND o.domain = e.domain AND o.first <= e.place
                         ORDER BY o.first DESC LIMIT 1) AS before ON true
                     WHERE coalesce(before.last < e.place, true)  -- it is new: not entered above, nor before it was requeued
                   ) AS r
             GROUP BY r.queue, r.domain, r.number) AS n
      LEFT JOIN LATERAL (
        SELECT o.last FROM ended_offsets AS o
         WHERE o.space = _space AND o.queue = n.queue AND o.domain = n.domain
           AND o.first <= least(n.last, 9223372036854775806) + 1
         ORDER BY o.first DESC LIMIT 1) AS near ON true
  ), inserted AS (
    INSERT INTO ended_offsets (space, queue, domain, first, last)
    SELECT _space, r.queue, r.domain, r.first, r.last FROM ranges AS r WHERE NOT r.joins
  )
  SELECT array_agg(r.queue), array_agg(r.domain), array_agg(r.first), array_agg(r.last)
    INTO _new_queues, _new_domains, _firsts, _lasts FROM ranges AS r WHERE r.joins;

  FOR _item IN 1 .. coalesce(cardinality(_firsts), 0) LOOP
    WITH joined AS (
      DELETE FROM ended_offsets AS o
       WHERE o.space = _space AND o.queue = _new_queues[_item] AND o.domain = _new_domains[_item]
         AND o.first >= coalesce((SELECT b.first FROM ended_offsets AS b
                                   WHERE b.space = _space AND b.queue = _new_queues[_item]
                                     AND b.domain = _new_domains[_item] AND b.first <= _firsts[_item]
                                   ORDER BY b.first DESC LIMIT 1), 0)
         AND o.first <= least(_lasts[_item], 9223372036854775806) + 1 AND o.last >= _firsts[_item] - 1
      RETURNING o.first, o.last
    )
    INSERT INTO ended_offsets (space, queue, domain, first, last)
    SELECT _space, _new_queues[_item], _new_domains[_item], least(_firsts[_item], min(j.first)),
           greatest(_lasts[_item], max(j.last))
      FROM joined AS j;
  END LOOP;
END $$;


-- name: refusals
-- Return why settlements that ended no lease are refused (law L5). A settlement that repeats the last one of its job
-- is not refused and has no row here (law L6).
--
-- Locks: none. Index: the primary keys of jobs and ended. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION refusals(
  _space text, _now bigint, _items integer[], _ids text[], _tokens text[], _verbs text[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT * FROM (
    SELECT a.item,
           CASE WHEN j.id IS NULL AND e.last_verb = a.verb AND e.last_token = a.token THEN NULL
                WHEN j.state = 'ready' AND j.last_verb = a.verb AND j.last_token = a.token THEN NULL
                WHEN j.id IS NULL OR j.state <> 'inflight' THEN 'not inflight'
                WHEN j.token <> a.token THEN 'mismatch'
                ELSE 'expired' END AS code,
           coalesce(j.state, e.state), j.expires_at, _now, NULL::text, NULL::text
      FROM (SELECT _space AS space, u.* FROM unnest(_items, _ids, _tokens, _verbs) AS u (item, id, token, verb) OFFSET 0
           ) AS a
      LEFT JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
      LEFT JOIN ended AS e ON e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND j.id IS NULL) AS judged
   WHERE judged.code IS NOT NULL;
END $$;
