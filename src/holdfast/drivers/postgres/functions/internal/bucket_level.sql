-- Return the level of a rate bucket now, in millionths of a job; NULL without a rate. The same arithmetic as
-- QueueSettings._level in model/queue_settings.py.
--
-- Locks: none. Index: none.
-- Shape: what flowed in is cut at 1e16, above every full bucket (2^31 jobs): after a long idle time the product
-- does not fit into a bigint.
CREATE OR REPLACE FUNCTION bucket_level(s settings, _now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN (SELECT CASE WHEN s.level IS NULL OR b.level >= b.full_level + 1000000 THEN b.full_level ELSE b.level END
          FROM (SELECT coalesce(s.burst, greatest(1, ceil(s.rate)))::bigint * 1000000,
                       s.level + floor(least(1e16, greatest(0, _now - s.level_at) * s.rate + 0.001))::bigint) AS b (full_level, level)
         WHERE s.rate IS NOT NULL);
