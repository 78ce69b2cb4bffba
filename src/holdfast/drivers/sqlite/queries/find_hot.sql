-- A page of ready or running jobs in order of ids. Relies on holdfast_jobs_id; the filters are checked row by row.
SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       NULL, NULL, NULL
  FROM holdfast_jobs INDEXED BY holdfast_jobs_id
 WHERE space = :space AND id > :after AND state = :state AND :reason IS NULL
   AND (:queue IS NULL OR queue = :queue) AND (:type IS NULL OR type = :type)
   AND (:domain IS NULL OR domain = :domain) AND (:name IS NULL OR name = :name)
   AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
   AND (:created_from IS NULL OR created_at >= :created_from)
   AND (:created_before IS NULL OR created_at < :created_before)
 ORDER BY id LIMIT :limit
