-- Return the level of a rate bucket now, in millionths of a job; NULL without a rate. The same arithmetic as
-- QueueSettings._level in model/queue_settings.py.
--
-- Locks: none. Index: none.
-- Shape: what flowed in is cut at 1e16, above every full bucket (2^31 jobs): after a long idle time the product
-- does not fit into a bigint.
CREATE OR REPLACE FUNCTION bucket_level(
  _rate double precision, _burst integer, _level bigint, _level_at bigint, _now bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN (SELECT CASE WHEN _level IS NULL OR b.level >= b.full_level + 1000000 THEN b.full_level ELSE b.level END
          FROM (SELECT coalesce(_burst, greatest(1, ceil(_rate)))::bigint * 1000000,
                       _level + floor(least(1e16, greatest(0, _now - _level_at) * _rate + 0.001))::bigint) AS b (full_level, level)
         WHERE _rate IS NOT NULL);
