-- Ended to ready, in the order asked: a new seq, so at the end of its line and of its domain.
INSERT INTO holdfast_jobs
  (space, id, queue, type, priority, turn, available_at, enqueued_at, max_attempts, max_crashes, noted, last_verb,
   last_token, created_at, requested_run_at, timeout, idempotency_key, domain, "offset", name, meta, webhook, signature,
   last_error, failed_at, payload)
SELECT e.space, e.id, e.queue, e.type, e.priority, e.domain IS NULL, :now, e.enqueued_at, e.max_attempts,
       e.max_crashes, e.noted, e.last_verb, e.last_token, e.created_at, e.requested_run_at, e.timeout,
       e.idempotency_key, e.domain, e."offset", e.name, e.meta, e.webhook, e.signature, e.last_error, e.failed_at,
       e.payload
  FROM json_each(:jobs) AS asked CROSS JOIN holdfast_ended AS e ON e.seq = asked.value
 ORDER BY asked.key
