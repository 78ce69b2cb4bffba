-- Cancel ready jobs at once and flag the ones in flight. Return the state of each known job afterwards. If a job was
-- flagged, send a NOTIFY to _channel: a worker that holds the job may be waiting for it (wait_for_cancel).
--
-- Locks: the rows of the jobs, sorted by id, then the domains of the cancelled ones. Index: the primary keys of jobs
-- and ended. Shape: see README.md, Stable plans. Only the rows that the first statement locked are changed: a job that
-- another session requeues meanwhile would be locked out of order, and two cancels would wait for each other.
CREATE OR REPLACE FUNCTION cancel(
  _space text, _caller_now bigint, _ids text[], _channel text DEFAULT NULL
) RETURNS TABLE (id text, state text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint;
  _locked text[];
  _transitions transition[];
BEGIN
  _locked := ARRAY(
    SELECT j.id
      FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
      JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
       FOR UPDATE OF j);
  _now := effective_now(_caller_now);

  UPDATE jobs AS j SET cancel_requested = true
    FROM (SELECT _space AS space, u.id FROM unnest(_locked) AS u (id) OFFSET 0) AS a
   WHERE j.space = ANY (ARRAY[a.space]) AND j.id = a.id AND j.token IS NOT NULL AND NOT j.cancel_requested;
  IF FOUND AND _channel IS NOT NULL THEN
    PERFORM pg_notify(_channel, 'cancel ' || _space);
  END IF;

  SELECT array_agg(ROW(a.item, j.ctid, NULL, NULL, 'cancelled', 'cancelled', j.attempts, j.crashes, j.run_at,
                       coalesce(j.parked_from, j.available_at), j.last_error, j.failed_at, j.released_for, NULL, NULL, NULL, '', '',
                       false)::transition)
    INTO _transitions
    FROM (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item) OFFSET 0) AS a
    JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
   WHERE j.state = 'ready' AND (a.id IN (SELECT unnest(_locked))) IS TRUE;
  IF _transitions IS NOT NULL THEN
    PERFORM apply_transitions(_space, _now, _transitions);
  END IF;

  RETURN QUERY
  SELECT a.id, found.state
    FROM unnest(_ids) AS a (id)
   CROSS JOIN LATERAL (SELECT j.state FROM jobs AS j WHERE j.space = _space AND j.id = a.id
                       UNION ALL
                       SELECT e.state FROM ended AS e WHERE e.space = _space AND e.id = a.id) AS found;
END $$;
