-- Make dead or cancelled jobs ready again, in the order of the arrays, after the jobs that are ready now. Return their ids.
--
-- Locks: the rows of the jobs in ended, sorted by id. The next reserve assigns the turn of a domain (arrivals). Index: the
-- primary key of ended. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION requeue(_space text, _caller_now bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _removed text[];
BEGIN
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
             ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND e.state IN ('dead', 'cancelled')
       AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = e.id OFFSET 0)
    RETURNING e.*, a.item
  ), recorded AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT r.space, r.id, r.type, r.queue, r.domain, r."offset", r.attempts, '', r.enqueued_at, r.available_at, _now,
           'requeued', 'ready', '', ''
      FROM removed AS r ORDER BY r.item
  ), arrived AS (
    INSERT INTO arrivals SELECT DISTINCT r.space, r.queue, r.domain FROM removed AS r WHERE r.domain IS NOT NULL
  ), inserted AS (
    INSERT INTO jobs ({fixed_columns}, space, turn, available_at, enqueued_at, noted, last_verb, last_token, last_error,
                      failed_at)
    SELECT {r.fixed_columns}, r.space, r.domain IS NULL, _now, r.enqueued_at, r.noted, r.last_verb, r.last_token,
           r.last_error, r.failed_at
      FROM removed AS r ORDER BY r.item
  )
  SELECT array_agg(r.id) INTO _removed FROM removed AS r;
  RETURN coalesce(_removed, '{}');
END $$;
