-- A job in any state. Relies on both primary keys.
SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       NULL::text, NULL::bigint, NULL::bytea
  FROM holdfast.jobs WHERE space = %(space)s AND id = %(id)s
UNION ALL
SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       dead_reason, dead_at, result
  FROM holdfast.ended WHERE space = %(space)s AND id = %(id)s
LIMIT 1
