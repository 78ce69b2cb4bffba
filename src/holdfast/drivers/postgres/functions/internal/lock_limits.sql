-- Return whether a queue of these is paused or limited, and lock the settings that limit it.
--
-- Locks: the rows of `settings` with max_inflight, rate or probing, sorted by queue and type, so that two reserves cannot use
-- the same capacity. Queues without limits lock nothing. Index: the primary key of settings.
-- Shape: the caller reads the capacity in a later statement, which sees what the previous holder of the lock
-- committed.
CREATE OR REPLACE FUNCTION lock_limits(_space text, _queues text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  _has_limits boolean;  -- NULL: neither paused nor limited
BEGIN
  SELECT bool_or(s.max_inflight IS NOT NULL OR s.rate IS NOT NULL OR s.probing) INTO _has_limits
    FROM settings AS s
   WHERE s.space = _space AND s.queue = ANY (_queues)
     AND (s.paused_until IS NOT NULL OR s.held_until IS NOT NULL OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL
          OR s.probing);
  IF _has_limits THEN
    PERFORM FROM settings AS s
      WHERE s.space = _space AND s.queue = ANY (_queues)
        AND (s.max_inflight IS NOT NULL OR s.rate IS NOT NULL OR s.probing)
      ORDER BY s.queue, s.type FOR UPDATE;
  END IF;
  RETURN _has_limits IS NOT NULL;
END $$;
