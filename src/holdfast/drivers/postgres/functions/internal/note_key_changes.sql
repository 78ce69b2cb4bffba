-- Enter the keys of jobs that have left: those of ended leases if the key has parked jobs, with _always all. Called after
-- the rows of the jobs were locked, in a later statement: unpark_jobs relies on that.
--
-- Locks: none. Index: the primary key of limit_keys.
CREATE OR REPLACE FUNCTION note_key_changes(_space text, _queues text[], _keys text[], _always boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO key_changes (space, queue, key)
  SELECT DISTINCT _space, k.queue, k.key
    FROM unnest(_queues, _keys) AS k (queue, key)
   WHERE _always
      OR EXISTS (SELECT FROM limit_keys AS l
                  WHERE l.space = _space AND l.queue = k.queue AND l.key = k.key AND l.parked OFFSET 0);
END $$;
