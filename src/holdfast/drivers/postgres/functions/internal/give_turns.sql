-- Let the right job of each of these domains have the turn, as assign_turns does, where that is simple: the queues have no
-- halts and no gaps, and no job has to give the turn back. _vacant says that this transaction has ended the jobs that had
-- the turns. Return whether all domains are done; if not, assign_turns decides about them.
--
-- Locks: the caller has locked the domains. The rows that get the turn, SKIP LOCKED: see assign_turns.
-- Index: jobs_domain, jobs_turn, the primary keys of domains and settings.
-- Shape: one or two probes and one update per domain, in one statement. Nearly all turns are given here. A batch of cancelled
-- jobs names its domain once for each: a probe for each would read all of them again. `suspect` is set to itself: an update
-- that changes no column of a generated one parses the generation expression again for every row.
CREATE OR REPLACE FUNCTION give_turns(_space text, _queues text[], _domains text[], _vacant boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  _is_done boolean;
BEGIN
  IF EXISTS (
    SELECT FROM (SELECT DISTINCT u.queue FROM unnest(_queues) AS u (queue)) AS q
     WHERE EXISTS (SELECT FROM domains AS d WHERE d.space = _space AND d.queue = q.queue OFFSET 0)
        OR EXISTS (SELECT FROM settings AS s
                    WHERE s.space = _space AND s.queue = q.queue AND s.type = '' AND s.gaps = 'wait' OFFSET 0)) THEN
    RETURN false;  -- a halt, a gap or a moved start decides about the turn, or may
  END IF;

  WITH next AS MATERIALIZED (
    SELECT first.row, holder.row IS NULL AS is_given
      FROM (SELECT DISTINCT u.queue, u.domain FROM unnest(_queues, _domains) AS u (queue, domain) OFFSET 0) AS d
      LEFT JOIN LATERAL (
        SELECT j.ctid AS row, j.state, j."offset" AS place, j.seq FROM jobs AS j
         WHERE NOT _vacant AND j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND j.turn
         LIMIT 1) AS holder ON true
     CROSS JOIN LATERAL (
        SELECT j.ctid AS row, j."offset" AS place, j.seq FROM jobs AS j
         WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn
         ORDER BY j."offset", j.seq LIMIT 1) AS first
     WHERE holder.row IS NULL
        OR (holder.state = 'ready' AND (first.place IS NULL, coalesce(first.place, 0), first.seq)
                                       < (holder.place IS NULL, coalesce(holder.place, 0), holder.seq))
  ), given AS (
    UPDATE jobs SET turn = true, suspect = suspect
     WHERE ctid = ANY (ARRAY(SELECT j.ctid FROM next AS n JOIN jobs AS j ON j.ctid = n.row WHERE n.is_given
                                FOR UPDATE OF j SKIP LOCKED))
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM given) = (SELECT count(*) FROM next) INTO _is_done;
  RETURN _is_done;
END $$;
