-- Look at this idempotency key again when as much time has passed as since the end of its window, at least an hour: so a
-- key is read only a few times, however long its job stays. Index: the primary key.
UPDATE holdfast_dedupe SET check_at = :now + max(:now - until, 3600000000)
 WHERE space = :space AND queue = :queue AND key = :key
