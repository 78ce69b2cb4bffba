-- A page of dead or cancelled jobs in order of ids. Relies on holdfast_ended_when: they are few beside the done ones.
SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       dead_reason, dead_at, result
  FROM holdfast_ended INDEXED BY holdfast_ended_when
 WHERE space = :space AND state = :state AND id > :after AND (:reason IS NULL OR dead_reason = :reason)
   AND (:queue IS NULL OR queue = :queue) AND (:type IS NULL OR type = :type)
   AND (:domain IS NULL OR domain = :domain) AND (:name IS NULL OR name = :name)
   AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
   AND (:created_from IS NULL OR created_at >= :created_from)
   AND (:created_before IS NULL OR created_at < :created_before)
 ORDER BY id LIMIT :limit
