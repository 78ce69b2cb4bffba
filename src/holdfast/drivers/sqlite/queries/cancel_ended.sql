-- Ready to cancelled.
INSERT INTO holdfast_ended
  (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at, attempts, max_attempts,
   crashes, max_crashes, cancel_requested, noted, last_verb, last_token, created_at, requested_run_at, timeout,
   idempotency_key, domain, "offset", name, meta, webhook, signature, last_error, failed_at, payload)
SELECT j.seq, j.space, j.id, j.queue, j.type, j.priority, 'cancelled', j.available_at, j.enqueued_at, :now, j.run_at,
       j.attempts, j.max_attempts, j.crashes, j.max_crashes, 0, j.noted, j.last_verb, j.last_token,
       j.created_at, j.requested_run_at, j.timeout, j.idempotency_key, j.domain, j."offset", j.name, j.meta,
       j.webhook, j.signature, j.last_error, j.failed_at, j.payload
  FROM json_each(:jobs) AS asked CROSS JOIN holdfast_jobs AS j ON j.seq = asked.value
