-- Give the turn to the first job of each of these domains, unless a job of the domain has it (law L11).
--
-- Locks: the domains (lock_domains), then the rows that get the turn. Index: jobs_domain, in which the job with the
-- turn is the first entry of its domain.
-- Shape: one index probe per domain. The UPDATE finds its rows by ctid, which is safe: only the holder of the domain
-- lock updates a row without the turn.
CREATE OR REPLACE FUNCTION pass_turns(_space text, _queues text[], _domains text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  UPDATE jobs SET turn = true
   WHERE ctid = ANY (ARRAY(
     SELECT first.row
       FROM unnest(_queues, _domains) AS d (queue, domain)
      CROSS JOIN LATERAL (SELECT j.ctid AS row, j.turn FROM jobs AS j
                           WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain
                           ORDER BY j.turn DESC, j.seq LIMIT 1) AS first
      WHERE NOT first.turn));
END $$;
