-- A page of ready or running jobs, ordered by id. Index: holdfast_jobs_id; the filters are applied to each row.
SELECT {live_job_columns}
  FROM holdfast_jobs INDEXED BY holdfast_jobs_id
 WHERE space = :space AND id {beyond} :after AND id {up_to} :upto AND state = :state
   AND (:queue IS NULL OR queue = :queue) AND (:type IS NULL OR type = :type)
   AND (:domain IS NULL OR domain = :domain) AND (:name IS NULL OR name = :name)
   AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
   AND (:created_from IS NULL OR created_at >= :created_from)
   AND (:created_before IS NULL OR created_at < :created_before)
 ORDER BY id {direction} LIMIT :limit
