-- A page of done jobs, ordered by id. Index: holdfast_ended_id, because there may be millions of done jobs.
SELECT {job_columns}
  FROM holdfast_ended INDEXED BY holdfast_ended_id
 WHERE space = :space AND id {beyond} :after AND id {up_to} :upto AND state = :state
   AND (:queue IS NULL OR queue = :queue) AND (:type IS NULL OR type = :type)
   AND (:domain IS NULL OR domain = :domain) AND (:name IS NULL OR name = :name)
   AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
   AND (:created_from IS NULL OR created_at >= :created_from)
   AND (:created_before IS NULL OR created_at < :created_before)
 ORDER BY id {direction} LIMIT :limit
