-- Done jobs move out of the hot table; the payload is copied inside SQLite.
INSERT INTO holdfast_ended
  (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at, attempts, max_attempts,
   crashes, max_crashes, cancel_requested, noted, last_verb, last_token, created_at, requested_run_at, timeout,
   idempotency_key, domain, "offset", name, meta, webhook, signature, last_error, failed_at, result, payload)
SELECT j.seq, j.space, j.id, j.queue, j.type, j.priority, 'done', j.available_at, j.enqueued_at, :now, j.run_at,
       j.attempts, j.max_attempts, j.crashes, j.max_crashes, j.cancel_requested, j.noted, 'ack', j.token,
       j.created_at, j.requested_run_at, j.timeout, j.idempotency_key, j.domain, j."offset", j.name, j.meta,
       j.webhook, j.signature, j.last_error, j.failed_at, a.result, j.payload
  FROM holdfast_acking AS a CROSS JOIN holdfast_jobs AS j ON j.seq = a.job
