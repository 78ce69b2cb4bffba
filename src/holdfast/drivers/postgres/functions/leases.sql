-- Extend leases, and end those that have expired or whose reserve was lost.

-- name: extend
-- Move the end of every valid lease and store notes. Return one row per item, in order.
--
-- Locks: the rows of the jobs, sorted by id (FOR NO KEY UPDATE). Index: the primary keys of jobs and ended.
-- Shape: while leases only grow, no indexed column changes, so a heartbeat is a HOT update. The condition names the
-- token and not the state, as in ack. See README.md, Stable plans.
CREATE OR REPLACE FUNCTION extend(
  _space text, _caller_now bigint, _lease_for bigint, _ids text[], _tokens text[], _started bigint[], _progress bytea[],
  _checkpoints bytea[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, cancel_requested boolean, now bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
BEGIN
  PERFORM FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
             JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
              FOR NO KEY UPDATE OF j;
  _now := effective_now(_caller_now);
  RETURN QUERY
  SELECT a.item::integer,
         CASE WHEN j.id IS NULL OR j.state <> 'inflight' THEN 'not inflight'
              WHEN j.token <> a.token THEN 'mismatch'
              WHEN j.expires_at <= _now THEN 'expired'
              ELSE 'ok' END,
         coalesce(j.state, e.state),
         CASE WHEN j.state = 'inflight' AND j.token = a.token AND j.expires_at > _now THEN _now + _lease_for
              ELSE j.expires_at END,
         j.cancel_requested, _now
    FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens) WITH ORDINALITY AS u (id, token, item) OFFSET 0) AS a
    LEFT JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
    LEFT JOIN ended AS e ON e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND j.id IS NULL
   ORDER BY a.item;

  IF _progress IS NOT NULL OR _checkpoints IS NOT NULL THEN
    INSERT INTO notes AS n (space, job_id, progress, checkpoint)
    SELECT DISTINCT ON (a.id) _space, a.id, a.progress, a.checkpoint
      FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens, _progress, _checkpoints) WITH ORDINALITY
                   AS u (id, token, progress, checkpoint, item) OFFSET 0) AS a
      JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
     WHERE j.token = a.token AND j.expires_at > _now
       AND (a.progress IS NOT NULL OR a.checkpoint IS NOT NULL)
     ORDER BY a.id, a.item
    ON CONFLICT (space, job_id) DO UPDATE
       SET progress = coalesce(excluded.progress, n.progress), checkpoint = coalesce(excluded.checkpoint, n.checkpoint);
  END IF;

  UPDATE jobs AS j
     SET expires_at = _now + _lease_for, check_at = least(j.check_at, _now + _lease_for),
         started_at = coalesce(a.started_at, j.started_at),
         noted = j.noted OR a.progress IS NOT NULL OR a.checkpoint IS NOT NULL
    FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens, _started, _progress, _checkpoints)
                 AS u (id, token, started_at, progress, checkpoint) OFFSET 0) AS a
   WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id AND j.token = a.token AND j.expires_at > _now;
END $$;


-- name: reap
-- End expired leases, or all leases of a dead worker (end_expired), and pass the turns of their domains. Return how
-- many leases ended.
--
-- Locks: the rows of the leases, SKIP LOCKED, then the domains of the jobs. Index: jobs_leased.
CREATE OR REPLACE FUNCTION reap(_space text, _queues text[], _worker text, _limit integer, _caller_now bigint)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _ended record;
BEGIN
  SELECT e.* INTO _ended FROM end_expired(_space, _queues, _worker, _limit, _now) AS e;
  IF _ended.domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _ended.queues, _ended.domains, _ended.offsets, _ended.dead, false);
  END IF;
  RETURN _ended.ended;
END $$;


-- name: release_lost
-- Release leases that a reserve granted and whose answer was lost: nobody knows them, so nobody has begun their jobs.
-- The attempts are given back and no crash is counted, as after a release; the ledger says 'answer lost'. Return how many
-- leases were released.
--
-- The arguments are those of the lost reserve: only its tokens have these random bytes.
--
-- Locks: the rows of the leases, SKIP LOCKED (another session ends a lease that has expired), then the domains of
-- cancelled jobs. Index: jobs_leased; it reads the leases of these queues, as a reap of a dead worker does.
CREATE OR REPLACE FUNCTION release_lost(
  _space text, _caller_now bigint, _queues text[], _worker text, _token_bytes bytea
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  _leased tid[];
  _transitions transition[];
BEGIN
  _leased := ARRAY(
    SELECT held.row
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.worker = _worker
                            AND split_part(j.token, '.', 2) IN (
                              SELECT encode(substr(_token_bytes, n * 16 - 15, 16), 'hex')
                                FROM generate_series(1, octet_length(_token_bytes) / 16) AS n)
                          FOR UPDATE OF j SKIP LOCKED) AS held);
  IF _leased = '{}' THEN
    RETURN 0;
  END IF;
  _transitions := ARRAY(
    SELECT after_settlement(l.item::integer, l.job_ctid, j, effective_now(_caller_now), 'release', NULL, 'answer lost',
                            NULL, 0, NULL, '', false, NULL, NULL)
      FROM unnest(_leased) WITH ORDINALITY AS l (job_ctid, item) JOIN jobs AS j ON j.ctid = l.job_ctid
     ORDER BY l.item);
  PERFORM apply_transitions(_space, effective_now(_caller_now), _transitions);
  RETURN cardinality(_transitions);
END $$;


-- name: report_outage
-- End leases that expired while their worker could not reach the store: the attempts count, but no crashes. If such a
-- lease was ended as expired already, take its crash back, unless the job has ended (law L7). Return whether each item
-- was one of these, in order.
--
-- Locks: the rows of the jobs, sorted by id, then their domains. Index: the primary key of jobs.
-- Shape: item by item, because a batch may name several leases of one job, and a lease twice. Outages are rare.
CREATE OR REPLACE FUNCTION report_outage(_space text, _caller_now bigint, _ids text[], _tokens text[])
RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint;
  _transitions transition[];
  _answers boolean[] := '{}';
  _queues text[];         -- of end_leases
  _domains text[];
  _offsets bigint[];
  _dead text[];
  _key_queue text;
  _key text;
BEGIN
  PERFORM FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
             JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
              FOR UPDATE OF j;
  _now := effective_now(_caller_now);
  FOR _item IN 1 .. cardinality(_ids) LOOP
    SELECT array_agg(after_expiry(_item, j.ctid, j, _now, true)) INTO _transitions FROM jobs AS j
     WHERE j.space = _space AND j.id = _ids[_item] AND j.token = _tokens[_item] AND j.expires_at <= _now;
    IF _transitions IS NOT NULL THEN
      SELECT _queues || e.queues, _domains || e.domains, _offsets || e.offsets, _dead || e.dead
        INTO _queues, _domains, _offsets, _dead
        FROM end_leases(_space, _now, _transitions) AS e;
      _answers := _answers || true;
    ELSE
      -- A requeued job has the last token of its earlier life, and no crash.
      UPDATE jobs AS j SET crashes = j.crashes - 1, last_verb = 'expired uncounted'
       WHERE j.space = _space AND j.id = _ids[_item] AND j.last_token = _tokens[_item] AND j.last_verb = 'expired'
         AND j.crashes > 0
      RETURNING j.queue, j.limit_key INTO _key_queue, _key;
      _answers := _answers || FOUND;
      IF _key IS NOT NULL THEN  -- the job may share a child again: it has changed its lane
        PERFORM note_key_changes(_space, ARRAY[_key_queue], ARRAY[_key], true);
      END IF;
    END IF;
  END LOOP;

  IF _domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _queues, _domains, _offsets, _dead, false);
  END IF;
  RETURN _answers;
END $$;
