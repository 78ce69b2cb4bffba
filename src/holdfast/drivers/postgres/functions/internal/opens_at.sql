-- Return when the pauses and the rate of these settings allow the next job; NULL if neither delays it. The same arithmetic
-- as QueueSettings.opens_at in model/queue_settings.py.
--
-- Locks: none. Index: none.
CREATE OR REPLACE FUNCTION opens_at(s settings) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN greatest(s.paused_until, s.held_until,
                CASE WHEN s.level < 1000000 THEN bucket_reaches(1000000, s.rate, s.level, s.level_at) END);
