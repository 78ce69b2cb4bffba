-- Remove ended jobs and their notes for good. Return their ids.
--
-- Locks: the rows of the jobs in ended, sorted by id. Index: the primary keys of ended and notes. Shape: see README.md, Stable
-- plans.
CREATE OR REPLACE FUNCTION purge(_space text, _caller_now bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _removed text[];
BEGIN
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
             ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id
    RETURNING e.*, a.item
  ), recorded AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT r.space, r.id, r.type, r.queue, r.domain, r."offset", r.attempts, '', r.enqueued_at, r.available_at, _now,
           'purged', NULL, '', ''
      FROM removed AS r ORDER BY r.item
  ), notes_removed AS (
    DELETE FROM notes AS n USING removed AS r
     WHERE r.noted AND n.space = ANY (ARRAY[_space]) AND n.job_id = r.id
  )
  SELECT array_agg(r.id) INTO _removed FROM removed AS r;
  RETURN coalesce(_removed, '{}');
END $$;
