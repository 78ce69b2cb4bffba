-- Give the turn to the first job of each of these domains, unless a job of the domain has it (law L11).
--
-- Locks: the domains (lock_domains), then the rows that get the turn, SKIP LOCKED. Every other verb locks rows before
-- domains, so this function must not wait for a row: the session that holds the row may wait for the domain. A row
-- that is locked is left without the turn, and its domain is entered in `arrivals` for the next reserve: the session
-- that holds the row may end the job and pass the turn itself, or it may roll back.
-- Index: jobs_domain, in which the job with the turn is the first entry of its domain.
-- Shape: one index probe per domain. Rows are found by ctid, which is safe: only the holder of the domain lock
-- updates a row without the turn.
CREATE OR REPLACE FUNCTION pass_turns(_space text, _queues text[], _domains text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _heads tid[];
  _passed integer;
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  _heads := ARRAY(
    SELECT DISTINCT first.row
      FROM unnest(_queues, _domains) AS d (queue, domain)
     CROSS JOIN LATERAL (SELECT j.ctid AS row, j.turn FROM jobs AS j
                          WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain
                          ORDER BY j.turn DESC, j.seq LIMIT 1) AS first
     WHERE NOT first.turn);
  UPDATE jobs SET turn = true
   WHERE ctid = ANY (ARRAY(SELECT j.ctid FROM jobs AS j WHERE j.ctid = ANY (_heads) FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS _passed = ROW_COUNT;
  IF _passed < cardinality(_heads) THEN
    INSERT INTO arrivals (space, queue, domain)
    SELECT DISTINCT _space, d.queue, d.domain FROM unnest(_queues, _domains) AS d (queue, domain);
  END IF;
END $$;
