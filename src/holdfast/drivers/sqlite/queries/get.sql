-- A job in any state. Relies on both id indexes.
SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       NULL, NULL, NULL
  FROM holdfast_jobs WHERE space = :space AND id = :id
UNION ALL
SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       dead_reason, dead_at, result
  FROM holdfast_ended WHERE space = :space AND id = :id
