-- Remove ended jobs and their notes for good. Return their ids. A domain that such a job halted goes on.
--
-- Locks: the rows of the jobs in ended, sorted by id, then the domains that go on; the next reserve assigns their turns
-- (arrivals). Index: the primary keys of ended, notes and domains. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION purge(_space text, _caller_now bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _removed text[];
  _halting text[];
  _queues text[];         -- of the domains that they halted
  _domains text[];
BEGIN
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
             ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id
    RETURNING e.*, a.item, e.domain IS NOT NULL
      AND EXISTS (SELECT FROM domains AS d
                   WHERE d.space = _space AND d.queue = e.queue AND d.domain = e.domain AND d.halted_by = e.id
                  OFFSET 0) AS is_halting
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
  SELECT array_agg(r.id), array_agg(r.id) FILTER (WHERE r.is_halting), array_agg(r.queue) FILTER (WHERE r.is_halting),
         array_agg(r.domain) FILTER (WHERE r.is_halting)
    INTO _removed, _halting, _queues, _domains FROM removed AS r;
  IF _halting IS NOT NULL THEN
    PERFORM clear_halts(_space, _halting, _queues, _domains);
  END IF;
  RETURN coalesce(_removed, '{}');
END $$;
