-- Return when the pause and the rate of these settings allow the next job; NULL if neither delays it. The same arithmetic
-- as QueueSettings.opens_at in model/queue_settings.py.
--
-- Locks: none. Index: none.
CREATE OR REPLACE FUNCTION opens_at(s settings) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN greatest(s.paused_until,
                CASE WHEN s.level < 1000000
                     THEN s.level_at + ceil((1000000 - s.level - 0.001) / s.rate)::bigint END);
