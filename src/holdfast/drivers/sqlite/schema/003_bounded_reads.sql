-- When `trim` next looks at an idempotency key: not before its window ends, and not before check_at. A trim that finds
-- that the key must stay moves check_at forward, so that the next trims do not read the key again.
ALTER TABLE holdfast_dedupe ADD COLUMN check_at INTEGER NOT NULL DEFAULT 0;

DROP INDEX holdfast_dedupe_until;
CREATE INDEX holdfast_dedupe_expiry ON holdfast_dedupe (space, max(until, check_at));

-- Pages of dead or cancelled jobs in the order of ids. Done jobs, which are many, are not in this index.
CREATE INDEX holdfast_ended_few ON holdfast_ended (space, state, id) WHERE state <> 'done';
