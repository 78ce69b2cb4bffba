-- Delete one idempotency key. Index: the primary key.
DELETE FROM holdfast_dedupe WHERE space = ? AND queue = ? AND key = ?
