-- Note the endings of jobs of domains (note_endings), and let the right job of each of these domains have the turn
-- (give_turns, assign_turns). The arrays name a domain for each job that ended; _offsets has its offset, and _dead its id if
-- it is dead (NULL, or shorter arrays: neither). _vacant: see give_turns.
--
-- Locks: the domains, then those of the last two functions. One call per transaction: a second one would lock domains out of order.
-- Index: those of the three functions.
CREATE OR REPLACE FUNCTION pass_turns(
  _space text, _now bigint, _queues text[], _domains text[], _offsets bigint[], _dead text[], _vacant boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  IF cardinality(array_remove(_offsets, NULL)) > 0 OR cardinality(array_remove(_dead, NULL)) > 0 THEN
    PERFORM note_endings(_space, _now, _queues, _domains, _offsets, _dead);
  END IF;
  IF NOT give_turns(_space, _queues, _domains, _vacant) THEN
    PERFORM assign_turns(_space, _now, _queues, _domains);
  END IF;
END $$;
