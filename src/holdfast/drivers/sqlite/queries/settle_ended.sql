-- Jobs that reached their end move out of the hot table; the payload is copied inside SQLite.
INSERT INTO holdfast_ended
  (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at, attempts, max_attempts,
   crashes, max_crashes, cancel_requested, noted, last_verb, last_token, created_at, requested_run_at, timeout,
   idempotency_key, domain, "offset", name, meta, webhook, signature, last_error, failed_at, dead_reason, dead_at,
   result, payload)
SELECT j.seq, j.space, j.id, j.queue, j.type, j.priority, s.state, s.available_at, j.enqueued_at, :now, s.run_at,
       s.attempts, j.max_attempts, s.crashes, j.max_crashes, j.cancel_requested, j.noted, s.verb, j.token,
       j.created_at, j.requested_run_at, j.timeout, j.idempotency_key, j.domain, j."offset", j.name, j.meta,
       j.webhook, j.signature, s.last_error, s.failed_at, s.dead_reason, s.dead_at, s.result, j.payload
  FROM holdfast_settling AS s CROSS JOIN holdfast_jobs AS j ON j.seq = s.job
 WHERE s.state <> 'ready'
