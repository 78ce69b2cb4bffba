-- Give the turn to the first waiting job of each vacant domain: one whose job with the turn this transaction has ended.
-- Return whether that was all that is to do for these domains. If not, assign_turns decides about them: a queue has rows in
-- `domains` (a halt, a gap or a moved start), or waits for gaps, or a row was locked.
--
-- Locks: the caller has locked the domains. The rows that get the turn, SKIP LOCKED: see assign_turns.
-- Index: jobs_domain, and the primary keys of domains and settings.
-- Shape: one probe and one update per domain, in one statement: most jobs of domains end here. `suspect` is set to itself:
-- an update that changes no column of a generated one parses its expression again for every row.
CREATE OR REPLACE FUNCTION give_turns(_space text, _queues text[], _domains text[], _vacant boolean[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  _is_done boolean;
BEGIN
  IF EXISTS (SELECT FROM (SELECT DISTINCT u.queue FROM unnest(_queues) AS u (queue)) AS q
              WHERE EXISTS (SELECT FROM domains AS d WHERE d.space = _space AND d.queue = q.queue OFFSET 0)
                 OR EXISTS (SELECT FROM settings AS s
                             WHERE s.space = _space AND s.queue = q.queue AND s.type = '' AND s.gaps = 'wait' OFFSET 0)) THEN
    RETURN false;
  END IF;

  WITH next AS MATERIALIZED (
    SELECT first.row
      FROM unnest(_queues, _domains, _vacant) AS d (queue, domain, is_vacant) CROSS JOIN LATERAL (
        SELECT j.ctid AS row FROM jobs AS j
         WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn
         ORDER BY j."offset", j.seq LIMIT 1) AS first
     WHERE d.is_vacant
  ), given AS (
    UPDATE jobs SET turn = true, suspect = suspect
     WHERE ctid = ANY (ARRAY(SELECT j.ctid FROM next AS n JOIN jobs AS j ON j.ctid = n.row FOR UPDATE OF j SKIP LOCKED))
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM given) = (SELECT count(*) FROM next) INTO _is_done;
  RETURN _is_done;
END $$;
