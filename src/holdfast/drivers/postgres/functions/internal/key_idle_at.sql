-- Return from when on nothing of the past limits the jobs of a key: its hold has ended and its rate bucket is full and idle
-- (QueueSettings.is_idle in model/queue_settings.py). At most a second later than that.
--
-- Locks: none. Index: none.
CREATE OR REPLACE FUNCTION key_idle_at(
  _rate double precision, _burst integer, _level bigint, _level_at bigint, _held_until bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN greatest(0, _held_until, 1000000 + bucket_reaches(
  coalesce(_burst, greatest(1, ceil(_rate)))::bigint * 1000000 + 1000000, _rate, _level, _level_at));
