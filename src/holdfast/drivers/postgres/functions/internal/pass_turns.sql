-- Note the endings of jobs of domains (note_endings), and let the right job of each of these domains have the turn
-- (assign_turns). The arrays name a domain for each job that ended; _offsets has its offset, and _dead its id if it is dead
-- (NULL, or shorter arrays: neither).
--
-- Locks: the domains, then those of assign_turns. One call per transaction: a second one would lock domains out of order.
-- Index: those of the two functions.
CREATE OR REPLACE FUNCTION pass_turns(
  _space text, _now bigint, _queues text[], _domains text[], _offsets bigint[], _dead text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  IF cardinality(array_remove(_offsets, NULL)) > 0 OR cardinality(array_remove(_dead, NULL)) > 0 THEN
    PERFORM note_endings(_space, _now, _queues, _domains, _offsets, _dead);
  END IF;
  PERFORM assign_turns(_space, _now, _queues, _domains);
END $$;
