-- Release leases that a reserve granted and whose answer was lost: nobody knows them, so nobody has begun their jobs.
-- The attempts are given back and no crash is counted, as after a release; the ledger says 'answer lost'. Return how many
-- leases were released.
--
-- The arguments are those of the lost reserve: only its tokens have these random bytes.
--
-- Locks: the rows of the leases, SKIP LOCKED (another session ends a lease that has expired), then the domains of
-- cancelled jobs. Index: jobs_leased; it reads the leases of these queues, as a reap of a dead worker does.
CREATE OR REPLACE FUNCTION release_lost(
  _space text, _caller_now bigint, _queues text[], _worker text, _token_bytes bytea
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  _leased tid[];
  _transitions transition[];
BEGIN
  _leased := ARRAY(
    SELECT held.row
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.worker = _worker
                            AND split_part(j.token, '.', 2) IN (
                              SELECT encode(substr(_token_bytes, n * 16 - 15, 16), 'hex')
                                FROM generate_series(1, octet_length(_token_bytes) / 16) AS n)
                          FOR UPDATE OF j SKIP LOCKED) AS held);
  IF _leased = '{}' THEN
    RETURN 0;
  END IF;
  _transitions := ARRAY(
    SELECT after_settlement(l.item::integer, l.job_ctid, j, effective_now(_caller_now), 'release', NULL, 'answer lost',
                            NULL, 0, NULL, '', false, NULL, NULL)
      FROM unnest(_leased) WITH ORDINALITY AS l (job_ctid, item) JOIN jobs AS j ON j.ctid = l.job_ctid
     ORDER BY l.item);
  PERFORM apply_transitions(_space, effective_now(_caller_now), _transitions);
  RETURN cardinality(_transitions);
END $$;
