-- Return the names of up to _limit spaces that may have expired leases, in order, after a name; and the name after which
-- the next call continues, NULL at the end. One call looks at 1000 spaces that have leases at most.
--
-- Locks: none. Index: jobs_leased; one probe per space and queue that has leases.
-- Shape: a lease that was extended is found once per lease length, as in end_expired.sql.
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
