-- Remove ended jobs and their notes for good. Return their ids. A domain that such a job halted goes on.
--
-- Readers of the ledger have read up to (_read_xid, _read_seq), NULL without readers: jobs with later rows stay. At most
-- 10000 later rows are read (FIND_LIMIT in drivers/contract.py). If there are more, jobs that ended after them stay,
-- too; a row may be committed an hour after its ended_at (MAX_COMMIT_DELAY in model/ledger_reader.py).
--
-- Locks: the rows of the jobs in ended, sorted by id, then the domains that go on; the next reserve assigns their turns
-- (arrivals). Index: the primary keys of ended, notes, ledger and domains. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION purge(
  _space text, _caller_now bigint, _ids text[], _read_xid bigint DEFAULT NULL, _read_seq bigint DEFAULT NULL
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _locked text[];
  _unread text[];
  _unread_since bigint;
  _removed text[];
  _halting text[];
  _queues text[];         -- of the domains that they halted
  _domains text[];
BEGIN
  IF _read_xid IS NOT NULL THEN
    -- The locks come first, and only locked jobs are removed: a job that ends, or is requeued and ends once more, after
    -- its rows were looked for stays.
    _locked := ARRAY(
      SELECT e.id FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
        JOIN ended AS e ON e.space = ANY (ARRAY[a.space]) AND e.id = a.id
         FOR UPDATE OF e);
    SELECT array_agg(l.job_id), least((array_agg(l.ended_at))[10000], _now) - 3600000000
      INTO _unread, _unread_since
      FROM (SELECT l.job_id, l.ended_at FROM ledger AS l
             WHERE l.space = _space AND (l.xid, l.seq) > (_read_xid::text::xid8, _read_seq)
             ORDER BY l.xid, l.seq LIMIT 10000) AS l;
    _unread_since := CASE WHEN cardinality(_unread) = 10000 THEN _unread_since END;
    _ids := ARRAY(SELECT u.id FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
                   WHERE (u.id IN (SELECT unnest(_locked))) IS TRUE
                     AND u.id NOT IN (SELECT unnest(coalesce(_unread, '{}'))) ORDER BY u.item);
  END IF;
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
             ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND (_unread_since IS NULL OR e.ended_at < _unread_since)
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
