-- A new job. In a domain it waits for its turn, which pass_turn.sql gives right after.
INSERT INTO holdfast_jobs
  (space, id, queue, type, priority, turn, available_at, enqueued_at, run_at, attempts, max_attempts, crashes,
   max_crashes, created_at, requested_run_at, timeout, idempotency_key, domain, "offset", name, meta, webhook,
   signature, last_error, failed_at, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
