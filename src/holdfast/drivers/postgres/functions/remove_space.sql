-- Remove rows of a space from all tables, at most _limit. Return how many were removed, whether there are more, and how
-- many leases prevent it: none is removed while the space has leases in flight, unless _force.
--
-- Locks: the removed rows, SKIP LOCKED: a row that another session changes stays for the next call. Index: one that begins
-- with the space in every table.
CREATE OR REPLACE FUNCTION remove_space(
  _space text, _force boolean, _limit integer, OUT removed integer, OUT more boolean, OUT leases integer
) LANGUAGE plpgsql AS $$
DECLARE
  _table name;
  _count integer;
BEGIN
  removed := 0;
  more := false;
  leases := 0;
  IF NOT _force THEN
    SELECT count(*) INTO leases
      FROM (SELECT FROM jobs AS j WHERE j.space = _space AND j.state = 'inflight' LIMIT 1000) AS held;
    IF leases > 0 THEN
      RETURN;
    END IF;
  END IF;
  FOREACH _table IN ARRAY space_tables() LOOP
    EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY('
                   'SELECT ctid FROM %1$I WHERE space = $1 LIMIT $2 FOR UPDATE SKIP LOCKED))', _table)
      USING _space, _limit - removed;
    GET DIAGNOSTICS _count = ROW_COUNT;
    removed := removed + _count;
    EXECUTE format('SELECT $1 OR EXISTS (SELECT FROM %I WHERE space = $2)', _table) INTO more USING more, _space;
  END LOOP;
END $$;
