-- When `trim` next looks at an idempotency key: not before its window ends, and not before check_at. A trim that finds
-- that the key must stay moves check_at forward, so that the next trims do not read the key again.
ALTER TABLE dedupe ADD COLUMN check_at bigint NOT NULL DEFAULT 0;

-- The condition is always true. It keeps the planner from using this index to look up a key.
DROP INDEX dedupe_expiry;
CREATE INDEX dedupe_expiry ON dedupe (space, greatest(until, check_at)) WHERE until > 0;
