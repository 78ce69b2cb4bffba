-- Return two flags: whether a queue of these is paused or limited, and whether one is keyed. NULL: neither. Lock the
-- settings that limit the queues.
--
-- Locks: the rows of `settings` with max_inflight, rate or probing, and those of keyed queues, sorted by queue and type, so
-- that two reserves cannot use the same capacity. Queues without limits lock nothing. Index: the primary key of settings.
-- Shape: the caller reads the capacity in a later statement, which sees what the previous holder of the lock
-- committed.
CREATE OR REPLACE FUNCTION lock_limits(_space text, _queues text[]) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
  _is_limited boolean;  -- NULL: neither paused, limited nor keyed
  _has_locks boolean;
  _is_keyed boolean;
BEGIN
  SELECT bool_or(s.paused_until IS NOT NULL OR s.held_until IS NOT NULL OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL
                 OR s.probing),
         bool_or(s.max_inflight IS NOT NULL OR s.rate IS NOT NULL OR s.probing OR s.keyed), bool_or(s.keyed)
    INTO _is_limited, _has_locks, _is_keyed
    FROM settings AS s
   WHERE s.space = _space AND s.queue = ANY (_queues)
     AND (s.paused_until IS NOT NULL OR s.held_until IS NOT NULL OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL
          OR s.probing OR s.keyed);
  IF _is_limited IS NULL THEN
    RETURN NULL;
  END IF;
  IF _has_locks THEN
    PERFORM FROM settings AS s
      WHERE s.space = _space AND s.queue = ANY (_queues)
        AND (s.max_inflight IS NOT NULL OR s.rate IS NOT NULL OR s.probing OR s.keyed)
      ORDER BY s.queue, s.type FOR UPDATE;
  END IF;
  RETURN ARRAY[_is_limited, _is_keyed];
END $$;
