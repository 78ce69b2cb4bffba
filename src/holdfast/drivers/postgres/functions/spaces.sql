-- All spaces of a store.

-- name: list_expired_spaces
-- Return the names of up to _limit spaces that may have expired leases, in order, after a name; and the name after which
-- the next call continues, NULL at the end. One call looks at 1000 spaces that have leases at most.
--
-- Locks: none. Index: jobs_leased; one probe per space and queue that has leases.
-- Shape: a lease that was extended is found once per lease length, as in end_expired.
CREATE OR REPLACE FUNCTION list_expired_spaces(
  _after text, _limit integer, _caller_now bigint, OUT names text[], OUT cursor text
) LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _queue text;
  _check_at bigint;
BEGIN
  names := '{}';
  cursor := _after;
  FOR _number IN 1 .. 1000 LOOP
    SELECT j.space INTO _after FROM jobs AS j
     WHERE j.state = 'inflight' AND j.space > cursor ORDER BY j.space, j.queue, j.check_at LIMIT 1;
    IF _after IS NULL THEN
      cursor := NULL;
      RETURN;
    END IF;
    IF cardinality(names) = _limit THEN
      RETURN;
    END IF;
    _queue := '';
    LOOP
      SELECT j.queue, j.check_at INTO _queue, _check_at FROM jobs AS j
       WHERE j.space = _after AND j.state = 'inflight' AND j.queue > _queue
       ORDER BY j.queue, j.check_at LIMIT 1;
      EXIT WHEN _queue IS NULL;
      IF _check_at <= _now THEN
        names := names || _after;
        EXIT;
      END IF;
    END LOOP;
    cursor := _after;
  END LOOP;
END $$;


-- name: list_spaces
-- Return the names of the spaces that have rows in any table, in order, after a name.
--
-- Locks: none. Index: one that begins with the space in every table; one probe per table and space.
CREATE OR REPLACE FUNCTION list_spaces(_after text, _limit integer) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  _next text := (
    SELECT 'SELECT min(s.space) FROM (' || string_agg(
             format('(SELECT t.space FROM %I AS t WHERE t.space > $1 ORDER BY t.space LIMIT 1)', tables.name),
             ' UNION ALL ') || ') AS s'
      FROM unnest(space_tables()) AS tables (name));
BEGIN
  FOR _number IN 1 .. _limit LOOP
    EXECUTE _next INTO _after USING _after;
    EXIT WHEN _after IS NULL;
    RETURN NEXT _after;
  END LOOP;
END $$;


-- name: remove_space
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
