-- Remove old rows.

-- name: delete_key
-- Delete one idempotency key. Index: the primary key.
DELETE FROM holdfast_dedupe WHERE space = ? AND queue = ? AND key = ?


-- name: delete_ledger
-- Delete the ledger up to a row. Index: the primary key.
DELETE FROM holdfast_ledger WHERE space = :space AND seq <= :upto


-- name: find_ended
-- Jobs of one state that ended long enough ago, oldest first. Index: holdfast_ended_when.
SELECT seq FROM holdfast_ended INDEXED BY holdfast_ended_when
 WHERE space = :space AND state = :state AND ended_at <= :before ORDER BY ended_at LIMIT :limit


-- name: find_keys
-- Idempotency keys that trim has to look at now, with whether they stay: the key of a done or removed job goes with its
-- window; another job is open or may be requeued, and then its key is valid again. Index: holdfast_dedupe_expiry and
-- both id indexes.
SELECT d.queue, d.key,
       EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.space = d.space AND j.id = d.job_id)
       OR coalesce((SELECT e.state FROM holdfast_ended AS e WHERE e.space = d.space AND e.id = d.job_id), 'done')
          <> 'done'
  FROM holdfast_dedupe AS d INDEXED BY holdfast_dedupe_expiry
 WHERE d.space = :space AND max(d.until, d.check_at) <= :now
 ORDER BY max(d.until, d.check_at) LIMIT :limit


-- name: find_ledger
-- The oldest rows of the ledger, in order, with the instants at which they were written. Rows after :upto are left out
-- (NULL: none). Index: the primary key.
SELECT seq, ended_at FROM holdfast_ledger
 WHERE space = :space AND seq > :trimmed AND seq <= coalesce(:upto, 9223372036854775807) ORDER BY seq LIMIT :limit


-- name: postpone_key
-- Look at this idempotency key again when as much time has passed as since the end of its window, at least an hour: so a
-- key is read only a few times, however long its job stays. Index: the primary key.
UPDATE holdfast_dedupe SET check_at = :now + max(:now - until, 3600000000)
 WHERE space = :space AND queue = :queue AND key = :key


-- name: registry
-- Delete registry entries that have expired. Index: holdfast_registry_expiry.
DELETE FROM holdfast_registry
 WHERE rowid IN (SELECT rowid FROM holdfast_registry INDEXED BY holdfast_registry_expiry
                  WHERE space = :space AND expires_at <= :now LIMIT :limit)


-- name: set_ledger_trimmed
-- Store how far the ledger is trimmed: readers before this row get LedgerTrimmed, and numbers continue after it even if
-- no row is left. Index: the primary key.
INSERT INTO holdfast_spaces (space, counter, ledger_trimmed) VALUES (:space, :counter, :upto)
ON CONFLICT (space) DO UPDATE SET ledger_trimmed = excluded.ledger_trimmed
