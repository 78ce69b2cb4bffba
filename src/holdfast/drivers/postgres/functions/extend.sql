-- Move the end of every valid lease and store notes. Return one row per item, in order.
--
-- Locks: the rows of the jobs, sorted by id (FOR NO KEY UPDATE). Index: the primary keys of jobs and ended.
-- Shape: while leases only grow, no indexed column changes, so a heartbeat is a HOT update. The condition names the
-- token and not the state, as in ack.sql. See README.md, Stable plans.
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
