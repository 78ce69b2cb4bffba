-- Every idempotency key; judged if it stood for more than one job, by the earlier jobs of that key in its queue. A key is
-- certainly held from the enqueueing of its job to the job's first end: a job that is requeued later may find it taken,
-- which is right. How much longer it is held is a setting of the queue, which no history knows. A job that is older than
-- the history may have ended and been requeued before it: of such a one only the first day is certain.
-- Only ledger rows of jobs that share a key are looked at. Mostly those are few, and are sent to where the ledger is.
WITH keyed AS (
  SELECT job_id, any_value(queue) AS queue, max(idempotency_key) AS key,
         max(coalesce(state IN ('done', 'dead', 'cancelled'), false)) AS had_ended
    FROM (SELECT job_id, queue, idempotency_key, state FROM {jobs} WHERE idempotency_key IS NOT NULL
          UNION ALL
          SELECT job_id, queue, idempotency_key, state FROM {waiting} WHERE idempotency_key IS NOT NULL)
   GROUP BY job_id
),
counted AS (
  SELECT *, count(*) OVER (PARTITION BY queue, key) AS sharing FROM keyed
),
shared AS (
  SELECT job_id, queue, key, had_ended FROM counted WHERE sharing > 1
),
told AS (
  SELECT ledger.job_id,
         min(enqueued_at) AS enqueued_at,
         min_by(CASE WHEN ending = 'requeued' THEN enqueued_at ELSE ended_at END,
                CASE WHEN ending = 'requeued' OR state IN ('done', 'dead', 'cancelled') THEN position END) AS first_end
    FROM {leases} AS ledger JOIN shared ON shared.job_id = ledger.job_id
   GROUP BY ledger.job_id
),
known AS (
  SELECT min(ended_at) AS since FROM {leases}
),
lived AS (
  SELECT shared.job_id, queue, key, enqueued_at,
         CASE WHEN enqueued_at < since THEN least(first_end, enqueued_at + INTERVAL 1 DAY)
              ELSE coalesce(first_end, TIMESTAMP '9999-12-31') END AS held_for_it_until
    FROM shared LEFT JOIN told ON told.job_id = shared.job_id CROSS JOIN known
   WHERE NOT (had_ended AND told.job_id IS NULL)  -- of such a job nothing is known
)
SELECT job_id, queue, key, CAST(NULL AS TIMESTAMP) AS enqueued_at, CAST(NULL AS STRING) AS last_job, false AS dedupe
  FROM counted WHERE sharing = 1
 UNION ALL
SELECT job_id, queue, key, enqueued_at, last_job,
       last_job IS NOT NULL AND coalesce(enqueued_at < held_until, held_until = TIMESTAMP '9999-12-31') AS dedupe
  FROM (
    SELECT job_id, queue, key, enqueued_at,
           lag(job_id) OVER line AS last_job,
           max(held_for_it_until) OVER earlier AS held_until
      FROM lived
    WINDOW line AS (PARTITION BY queue, key ORDER BY enqueued_at NULLS LAST, job_id),
           earlier AS (PARTITION BY queue, key ORDER BY enqueued_at NULLS LAST, job_id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  )
