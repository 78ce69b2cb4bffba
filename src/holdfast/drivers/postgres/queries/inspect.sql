-- A job with what is known of it beside its record, from wherever it is.
SELECT j.id, j.type, j.queue, j.payload, j.priority, j.run_at, j.timeout, j.created_at, j.attempts, j.max_attempts, j.crashes, j.max_crashes,
       j.idempotency_key, j.domain, j."offset", j.name, j.meta, j.webhook, j.signature, j.requested_run_at, j.state, j.last_error, j.failed_at,
       NULL::text, NULL::bigint, NULL::bytea,
       j.available_at, j.worker, j.fence, j.reserved_at, j.started_at, j.expires_at, NULL::bigint, j.cancel_requested,
       j.noted, n.progress, n.checkpoint
  FROM holdfast.jobs AS j LEFT JOIN holdfast.notes AS n ON n.space = j.space AND n.job_id = j.id
 WHERE j.space = %(space)s AND j.id = %(id)s
UNION ALL
SELECT e.id, e.type, e.queue, e.payload, e.priority, e.run_at, e.timeout, e.created_at, e.attempts, e.max_attempts, e.crashes, e.max_crashes,
       e.idempotency_key, e.domain, e."offset", e.name, e.meta, e.webhook, e.signature, e.requested_run_at, e.state, e.last_error, e.failed_at,
       e.dead_reason, e.dead_at, e.result,
       e.available_at, '', NULL, NULL, NULL, NULL, e.ended_at, e.cancel_requested, e.noted, n.progress, n.checkpoint
  FROM holdfast.ended AS e LEFT JOIN holdfast.notes AS n ON n.space = e.space AND n.job_id = e.id
 WHERE e.space = %(space)s AND e.id = %(id)s
LIMIT 1
