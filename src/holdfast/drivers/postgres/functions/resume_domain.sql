-- Let a halted domain go on (_action: ResumeAction), or move the offset from which on a domain waits for missing ones.
-- Return whether this call changed the domain.
--
-- Locks: those of requeue for 'retry', then the domain, then those of assign_turns. Index: the primary keys of domains and
-- ended.
CREATE OR REPLACE FUNCTION resume_domain(
  _space text, _caller_now bigint, _channel text, _queue text, _domain text, _action text, _position bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _halted_by text := (SELECT d.halted_by FROM domains AS d
                       WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain);
  _is_changed boolean := false;
BEGIN
  IF _action = 'retry' AND _halted_by IS NOT NULL THEN
    _is_changed := requeue(_space, _caller_now, ARRAY[_halted_by]) <> '{}';  -- and the domain is not halted any more
  END IF;

  PERFORM lock_domains(_space, ARRAY[_queue], ARRAY[_domain]);
  IF _action <> 'retry' THEN
    UPDATE domains AS d SET halted_by = NULL, halted_at = NULL
     WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain AND d.halted_by IS NOT NULL;
    _is_changed := FOUND;
  END IF;
  IF _position IS NOT NULL THEN
    INSERT INTO domains AS d (space, queue, domain, start)
    SELECT _space, _queue, _domain, _position
     WHERE _position > 0
        OR EXISTS (SELECT FROM domains AS d WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain)
    ON CONFLICT (space, queue, domain) DO UPDATE SET start = excluded.start WHERE d.start <> excluded.start;
    _is_changed := _is_changed OR FOUND;
  END IF;
  PERFORM assign_turns(_space, _now, ARRAY[_queue], ARRAY[_domain]);
  IF _is_changed AND _channel IS NOT NULL THEN
    PERFORM pg_notify(_channel, _space);
  END IF;
  RETURN _is_changed;
END $$;
