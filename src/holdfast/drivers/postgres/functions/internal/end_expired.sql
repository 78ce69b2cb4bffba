-- End expired leases, oldest first, in these queues (NULL: all queues). With _worker: end all leases of that worker,
-- which is known to be dead. Return how many leases ended, and the domains of the jobs (see end_leases).
--
-- Locks: the rows of the leases, SKIP LOCKED: it never waits for a row that another session is settling. Index:
-- jobs_leased.
-- Shape: check_at is at or before expires_at. A lease that was extended is found here once per lease length and its
-- check_at is moved forward; these rows do not count against _limit.
CREATE OR REPLACE FUNCTION end_expired(
  _space text, _queues text[], _worker text, _limit integer, _now bigint,
  OUT ended integer, OUT queues text[], OUT domains text[], OUT offsets bigint[], OUT dead text[]
) LANGUAGE plpgsql AS $$
DECLARE
  _leased tid[];
  _transitions transition[];
BEGIN
  IF _queues IS NULL THEN
    -- Skip from one queue to the next in the index.
    _queues := ARRAY(
      WITH RECURSIVE leased (queue) AS (
        SELECT (SELECT j.queue FROM jobs AS j WHERE j.space = _space AND j.state = 'inflight' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM jobs AS j WHERE j.space = _space AND j.state = 'inflight' AND j.queue > l.queue
                 ORDER BY j.queue LIMIT 1)
          FROM leased AS l WHERE l.queue IS NOT NULL
      )
      SELECT l.queue FROM leased AS l WHERE l.queue IS NOT NULL);
  END IF;

  IF _worker IS NULL THEN
    LOOP
      UPDATE jobs AS j SET check_at = j.expires_at
       WHERE j.ctid = ANY (ARRAY(
         SELECT due.row
           FROM unnest(_queues) AS q (queue)
          CROSS JOIN LATERAL (SELECT j.ctid AS row FROM jobs AS j
                               WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight'
                                 AND j.check_at <= _now AND j.expires_at > j.check_at
                               ORDER BY j.check_at LIMIT 1000 FOR UPDATE SKIP LOCKED) AS due));
      EXIT WHEN NOT FOUND;
    END LOOP;
    SELECT array_agg(due.row ORDER BY due.expires_at, due.seq) INTO _leased
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row, j.expires_at, j.seq FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.check_at <= _now
                            AND j.expires_at <= _now
                          ORDER BY j.check_at LIMIT _limit FOR UPDATE SKIP LOCKED) AS due;
  ELSE
    SELECT array_agg(held.row ORDER BY held.expires_at, held.seq) INTO _leased
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row, j.expires_at, j.seq FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.worker = _worker
                          FOR UPDATE SKIP LOCKED) AS held;
  END IF;
  IF _leased IS NULL THEN
    ended := 0;
    RETURN;
  END IF;

  _transitions := ARRAY(
    SELECT after_expiry(l.item::integer, l.job_ctid, j, _now, false)
      FROM unnest(_leased[:_limit]) WITH ORDINALITY AS l (job_ctid, item) JOIN jobs AS j ON j.ctid = l.job_ctid
     ORDER BY l.item);
  SELECT e.* INTO queues, domains, offsets, dead FROM end_leases(_space, _now, _transitions) AS e;
  ended := cardinality(_transitions);
END $$;
