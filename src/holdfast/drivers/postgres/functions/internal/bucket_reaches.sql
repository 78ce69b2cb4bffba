-- Return when a rate bucket has a level, in millionths of a job; NULL without a rate or for a bucket that is unused. The
-- same arithmetic as QueueSettings.opens_at in model/queue_settings.py.
--
-- Locks: none. Index: none.
-- Shape: the time is cut at 1e16, longer than any instant: at a tiny rate it does not fit into a bigint.
CREATE OR REPLACE FUNCTION bucket_reaches(
  _wanted bigint, _rate double precision, _level bigint, _level_at bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN _level_at + ceil(least(1e16, (_wanted - _level - 0.001) / _rate))::bigint;
