-- Remove the ended offsets, the start and the halt of a domain without open jobs. Return whether something was removed.
--
-- Locks: the domain, then its rows. Index: jobs_turn, jobs_domain, the primary keys of domains and ended_offsets.
-- Shape: an enqueue that has not committed is not seen. Its job is stored, and its offset was new or will be.
CREATE OR REPLACE FUNCTION forget_domain(_space text, _queue text, _domain text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  _is_changed boolean;
BEGIN
  PERFORM lock_domains(_space, ARRAY[_queue], ARRAY[_domain]);
  IF EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain = _domain AND j.turn)
     OR EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain = _domain AND NOT j.turn) THEN
    RETURN false;
  END IF;
  DELETE FROM ended_offsets AS o WHERE o.space = _space AND o.queue = _queue AND o.domain = _domain;
  _is_changed := FOUND;
  DELETE FROM domains AS d WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain;
  RETURN _is_changed OR FOUND;
END $$;
