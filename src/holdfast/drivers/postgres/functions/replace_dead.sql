-- Remove the dead jobs that ended before an instant and have a key of these new records; free the keys (laws L12, L13). The
-- caller stores the records in the same transaction.
--
-- A record whose id exists removes nothing. _read_xid and _read_seq are those of `purge`: jobs with unread ledger rows stay.
--
-- Locks: the rows of the jobs in ended, sorted by id, and what purge locks; then the keys in dedupe, sorted. Of two calls for
-- one key the second waits, and finds no dead job then. Index: the primary keys of jobs, ended and dedupe.
-- Shape: see README.md, Stable plans. A job is removed only under the lock that saw it dead: a requeued one stays.
CREATE OR REPLACE FUNCTION replace_dead(
  _space text, _caller_now bigint, _before bigint, _id text[], _queue text[], _key text[],
  _read_xid bigint DEFAULT NULL, _read_seq bigint DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _holders text[];
  _removed text[];
BEGIN
  _holders := ARRAY(
    SELECT d.job_id
      FROM unnest(_id, _queue, _key) AS a (id, queue, key)
     CROSS JOIN LATERAL (
       SELECT d.job_id FROM dedupe AS d WHERE d.space = _space AND d.queue = a.queue AND d.key = a.key OFFSET 0) AS d
     WHERE NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = a.id OFFSET 0)
       AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0));
  -- The state is compared after the join: as a condition of it, all dead jobs would be read and compared with the batch.
  SELECT array_agg(l.id) INTO _holders
    FROM (SELECT e.id, e.state, e.ended_at
            FROM (SELECT DISTINCT _space AS space, u.id COLLATE "C" AS id FROM unnest(_holders) AS u (id) ORDER BY 2
                  OFFSET 0) AS a
            JOIN ended AS e ON e.space = ANY (ARRAY[a.space]) AND e.id = a.id
          OFFSET 0 FOR UPDATE OF e) AS l
   WHERE l.state = 'dead' AND l.ended_at < _before;
  IF _holders IS NULL THEN
    RETURN;
  END IF;
  _removed := purge(_space, _caller_now, _holders, _read_xid, _read_seq);
  PERFORM FROM (SELECT _space AS space, u.queue, u.key FROM unnest(_queue, _key) AS u (queue, key)
                 ORDER BY u.queue, u.key OFFSET 0) AS a
     JOIN dedupe AS d ON d.space = ANY (ARRAY[a.space]) AND d.queue = a.queue AND d.key = a.key
      FOR UPDATE OF d;
  DELETE FROM dedupe AS d
   USING (SELECT _space AS space, u.queue, u.key FROM unnest(_queue, _key) AS u (queue, key) OFFSET 0) AS a
   WHERE d.space = ANY (ARRAY[a.space]) AND d.queue = a.queue AND d.key = a.key
     AND (d.job_id IN (SELECT unnest(_removed))) IS TRUE;
END $$;
