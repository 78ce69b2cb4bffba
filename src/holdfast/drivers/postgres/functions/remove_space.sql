-- Remove rows of a space from all tables, at most _limit. Return how many were removed, whether there are more, and how
-- many leases prevent it: none is removed while the space has leases in flight, unless _force.
--
-- Locks: that of the retention of the space, then the removed rows, SKIP LOCKED: a row that another session changes
-- stays for the next call. Index: one that begins with the space in every table.
-- Shape: the leases are counted again when the rows of jobs are locked: a reserve may have committed after the first
-- count. Rows of the other tables are removed only under a snapshot without jobs of the space: a job that was enqueued
-- meanwhile keeps its arrival and its key, and the next call removes all of them.
CREATE OR REPLACE FUNCTION remove_space(
  _space text, _force boolean, _limit integer, OUT removed integer, OUT more boolean, OUT leases integer
) LANGUAGE plpgsql AS $$
DECLARE
  _jobs tid[];
  _table name;
  _count integer;
BEGIN
  removed := 0;
  more := false;
  -- trim_expired must not record a position in a ledger that is being removed.
  PERFORM pg_advisory_xact_lock(1212106566, hashtext(_space) | (-2147483648)::integer);
  leases := (SELECT count(*) FROM (SELECT FROM jobs AS j
                                    WHERE NOT _force AND j.space = _space AND j.state = 'inflight' LIMIT 1000) AS held);
  IF leases > 0 THEN
    RETURN;
  END IF;
  _jobs := ARRAY(SELECT j.ctid FROM jobs AS j WHERE j.space = _space LIMIT _limit FOR UPDATE SKIP LOCKED);
  leases := (SELECT count(*) FROM (SELECT FROM jobs AS j
                                    WHERE NOT _force AND j.space = _space AND j.state = 'inflight' LIMIT 1000) AS held);
  IF leases > 0 THEN
    RETURN;
  END IF;

  FOREACH _table IN ARRAY space_tables() LOOP
    IF _table = 'jobs' THEN
      DELETE FROM jobs AS j WHERE j.ctid = ANY (_jobs);
    ELSE
      EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY('
                     'SELECT ctid FROM %1$I WHERE space = $1 AND NOT EXISTS (SELECT FROM jobs WHERE space = $1) '
                     'LIMIT $2 FOR UPDATE SKIP LOCKED))', _table)
        USING _space, _limit - removed;
    END IF;
    GET DIAGNOSTICS _count = ROW_COUNT;
    removed := removed + _count;
    EXECUTE format('SELECT $1 OR EXISTS (SELECT FROM %I WHERE space = $2)', _table) INTO more USING more, _space;
  END LOOP;
  more := more OR EXISTS (SELECT FROM jobs AS j WHERE j.space = _space);
END $$;
