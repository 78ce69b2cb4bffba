-- Apply transitions to jobs whose rows this transaction has locked (end_leases), and pass the turns of their domains.
-- For a verb that does so once.
--
-- Locks: the domains of the jobs (pass_turns). Index: none.
CREATE OR REPLACE FUNCTION apply_transitions(_space text, _now bigint, _transitions transition[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _ended record;
BEGIN
  SELECT e.* INTO _ended FROM end_leases(_space, _now, _transitions) AS e;
  IF _ended.domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _ended.queues, _ended.domains, _ended.offsets, _ended.dead, false);
  END IF;
END $$;
