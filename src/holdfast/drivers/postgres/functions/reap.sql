-- End expired leases, or all leases of a dead worker (end_expired), and pass the turns of their domains. Return how
-- many leases ended.
--
-- Locks: the rows of the leases, SKIP LOCKED, then the domains of the jobs. Index: jobs_leased.
CREATE OR REPLACE FUNCTION reap(_space text, _queues text[], _worker text, _limit integer, _caller_now bigint)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _ended record;
BEGIN
  SELECT e.* INTO _ended FROM end_expired(_space, _queues, _worker, _limit, _now) AS e;
  IF _ended.domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _ended.queues, _ended.domains, _ended.offsets, _ended.dead, false);
  END IF;
  RETURN _ended.ended;
END $$;
