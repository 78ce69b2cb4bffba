-- Map an idempotency key to a job. An older mapping is no longer valid: enqueue/find_keys.sql would have found it.
-- Index: the primary key.
INSERT INTO holdfast_dedupe (space, queue, key, job_id, digest, until, while_queued) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE
   SET job_id = excluded.job_id, digest = excluded.digest, until = excluded.until, while_queued = excluded.while_queued
