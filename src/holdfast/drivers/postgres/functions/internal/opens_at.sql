-- Return when the pauses and the rate of these settings allow the next job; NULL if neither delays it. The same arithmetic
-- as QueueSettings.opens_at in model/queue_settings.py.
--
-- Locks: none. Index: none.
-- Shape: the time is cut at 1e16, longer than any instant: at a tiny rate it does not fit into a bigint.
CREATE OR REPLACE FUNCTION opens_at(s settings) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN greatest(s.paused_until, s.held_until,
                CASE WHEN s.level < 1000000
                     THEN s.level_at + ceil(least(1e16, (1000000 - s.level - 0.001) / s.rate))::bigint END);
