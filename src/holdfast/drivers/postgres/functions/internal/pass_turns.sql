-- Note the endings of jobs of domains (note_endings), and let the right job of each of these domains have the turn
-- (give_turns, assign_turns). The arrays name a domain for each job that ended; _offsets has its offset, _dead its id if it is
-- dead, and _vacant is true if it had the turn (NULL, or shorter arrays: none of these).
--
-- Locks: the domains, then those of the last two functions. One call per transaction: a second one would lock domains out of order.
-- Index: those of the three functions.
CREATE OR REPLACE FUNCTION pass_turns(
  _space text, _now bigint, _queues text[], _domains text[], _offsets bigint[], _dead text[], _vacant boolean[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  IF cardinality(array_remove(_offsets, NULL)) > 0 OR cardinality(array_remove(_dead, NULL)) > 0 THEN
    PERFORM note_endings(_space, _now, _queues, _domains, _offsets, _dead);
  END IF;
  IF coalesce(true = ANY (_vacant), false) AND give_turns(_space, _queues, _domains, _vacant) THEN
    SELECT array_agg(d.queue), array_agg(d.domain) INTO _queues, _domains
      FROM unnest(_queues, _domains, _vacant) AS d (queue, domain, is_vacant) WHERE d.is_vacant IS NOT TRUE;
  END IF;
  IF _domains IS NOT NULL THEN
    PERFORM assign_turns(_space, _now, _queues, _domains);
  END IF;
END $$;
