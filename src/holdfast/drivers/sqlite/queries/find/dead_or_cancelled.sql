-- A page of dead or cancelled jobs, ordered by id. Index: holdfast_ended_few, which has no done jobs.
SELECT {job_columns}
  FROM holdfast_ended INDEXED BY holdfast_ended_few
 WHERE space = :space AND state <> 'done' AND state = :state AND id {beyond} :after AND id {up_to} :upto AND (:reason IS NULL OR dead_reason = :reason)
   AND (:queue IS NULL OR queue = :queue) AND (:type IS NULL OR type = :type)
   AND (:domain IS NULL OR domain = :domain) AND (:name IS NULL OR name = :name)
   AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
   AND (:created_from IS NULL OR created_at >= :created_from)
   AND (:created_before IS NULL OR created_at < :created_before)
 ORDER BY id {direction} LIMIT :limit
