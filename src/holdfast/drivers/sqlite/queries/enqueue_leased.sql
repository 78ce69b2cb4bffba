-- A new job in flight, its first attempt counted. None that has to stand in line comes here.
INSERT INTO holdfast_jobs
  (space, id, queue, type, priority, turn, available_at, enqueued_at, run_at, attempts, max_attempts, crashes,
   max_crashes, created_at, requested_run_at, timeout, idempotency_key, domain, "offset", name, meta, webhook,
   signature, last_error, failed_at, payload, fence, token, expires_at, reserved_at, worker, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'inflight')
