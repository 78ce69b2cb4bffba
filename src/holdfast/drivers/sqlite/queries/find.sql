-- Pages of jobs by id, loaded once for each order.

-- name: dead_or_cancelled
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


-- name: done
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


-- name: end_dead_or_cancelled
-- The id up to which one call of find reads the dead or cancelled jobs. Index: holdfast_ended_few, without the table.
SELECT id FROM holdfast_ended INDEXED BY holdfast_ended_few
 WHERE space = :space AND state <> 'done' AND state = :state AND id {beyond} :after ORDER BY id {direction} LIMIT 1 OFFSET :rows


-- name: end_done
-- The id up to which one call of find reads the ended jobs. Index: holdfast_ended_id, without the table.
SELECT id FROM holdfast_ended INDEXED BY holdfast_ended_id
 WHERE space = :space AND id {beyond} :after ORDER BY id {direction} LIMIT 1 OFFSET :rows


-- name: end_live
-- The id up to which one call of find reads the ready and running jobs. Index: holdfast_jobs_id, without the table.
SELECT id FROM holdfast_jobs INDEXED BY holdfast_jobs_id
 WHERE space = :space AND id {beyond} :after ORDER BY id {direction} LIMIT 1 OFFSET :rows


-- name: live
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
