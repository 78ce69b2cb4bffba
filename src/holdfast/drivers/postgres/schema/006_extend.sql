-- Move the end of every valid lease, and keep notes; answers for each item, in order. Changes no indexed column while
-- leases only grow, so that a heartbeat is a HOT update. Relies on the primary keys of jobs and ended.
--
-- Only a job in flight has a token (a constraint says so), so nothing asks for the state beside it: on an empty table the
-- planner would take that as an invitation to read the partial index of all leases.
CREATE FUNCTION extend_1(
  _space text, _given bigint, _lease_for bigint, _ids text[], _tokens text[], _started bigint[], _progress bytea[],
  _checkpoints bytea[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, cancel_requested boolean, now bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
BEGIN
  PERFORM FROM jobs AS j WHERE j.space = _space AND j.id = ANY (_ids) ORDER BY j.id FOR NO KEY UPDATE;
  _now := instant_1(_given);
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
    FROM unnest(_ids, _tokens) WITH ORDINALITY AS a (id, token, item)
    LEFT JOIN jobs AS j ON j.space = _space AND j.id = a.id
    LEFT JOIN ended AS e ON e.space = _space AND e.id = a.id AND j.id IS NULL
   ORDER BY a.item;

  IF _progress IS NOT NULL OR _checkpoints IS NOT NULL THEN
    INSERT INTO notes AS n (space, job_id, progress, checkpoint)
    SELECT DISTINCT ON (a.id) _space, a.id, a.progress, a.checkpoint
      FROM unnest(_ids, _tokens, _progress, _checkpoints) WITH ORDINALITY AS a (id, token, progress, checkpoint, item)
      JOIN jobs AS j ON j.space = _space AND j.id = a.id
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
    FROM unnest(_ids, _tokens, _started, _progress, _checkpoints) AS a (id, token, started_at, progress, checkpoint)
   WHERE j.space = _space AND j.id = a.id AND j.token = a.token AND j.expires_at > _now;
END $$;
