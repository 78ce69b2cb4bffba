-- Purpose: every idempotency key of a queue. A key of more than one job is checked against the earlier jobs of the key.
-- A job holds its key at least from its enqueue to its first end. A job that is requeued later may find the key in use,
-- which is correct. How much longer a key is held is a setting of the queue, which a history does not contain. A job that
-- is older than the history may have ended and been requeued before: of such a job only the first day is certain.
-- A job with its own rule (unique_for, see model/unique.py) may give its key away when it ends, and the enqueue that gets
-- the key reads its clock a moment before it looks at the job: so the last second is not certain. A job that holds its
-- key only while it is queued (-1) is not checked: a history does not say when it was queued again.
-- Input: {jobs} and {waiting}, job records; {leases}, ledger rows.
-- Shape: only ledger rows of jobs that share a key are read. Usually they are few, and Spark broadcasts their ids.
WITH keyed AS (
  SELECT job_id, any_value(queue) AS queue, max(idempotency_key) AS key, max(unique_for) AS unique_for,
         max(coalesce(state IN ('done', 'dead', 'cancelled'), false)) AS had_ended
    FROM (SELECT job_id, queue, idempotency_key, unique_for, state FROM {jobs} WHERE idempotency_key IS NOT NULL
          UNION ALL
          SELECT job_id, queue, idempotency_key, unique_for, state FROM {waiting} WHERE idempotency_key IS NOT NULL)
   GROUP BY job_id
),
counted AS (
  SELECT *, count(*) OVER (PARTITION BY queue, key) AS sharing FROM keyed
),
shared AS (
  SELECT job_id, queue, key, unique_for, had_ended FROM counted WHERE sharing > 1
),
endings AS (
  SELECT ledger.job_id,
         min(enqueued_at) AS enqueued_at,
         min_by(CASE WHEN ending = 'requeued' THEN enqueued_at ELSE ended_at END,
                CASE WHEN ending = 'requeued' OR state IN ('done', 'dead', 'cancelled') THEN position END) AS first_end
    FROM {leases} AS ledger JOIN shared ON shared.job_id = ledger.job_id
   GROUP BY ledger.job_id
),
history_start AS (
  SELECT min(ended_at) AS since FROM {leases}
),
holders AS (
  SELECT shared.job_id, queue, key, enqueued_at,
         CASE WHEN unique_for = -1 OR (unique_for >= 0 AND enqueued_at < since) THEN NULL
              WHEN unique_for >= 0 THEN coalesce(first_end - INTERVAL 1 SECOND, TIMESTAMP '9999-12-31')
              WHEN enqueued_at < since THEN least(first_end, enqueued_at + INTERVAL 1 DAY)
              ELSE coalesce(first_end, TIMESTAMP '9999-12-31') END AS own_held_until
    FROM shared LEFT JOIN endings ON endings.job_id = shared.job_id CROSS JOIN history_start
   WHERE NOT (had_ended AND endings.job_id IS NULL)  -- an ended job without ledger rows: its times are unknown
)
SELECT job_id, queue, key, CAST(NULL AS TIMESTAMP) AS enqueued_at, CAST(NULL AS STRING) AS last_job, false AS dedupe
  FROM counted WHERE sharing = 1
 UNION ALL
SELECT job_id, queue, key, enqueued_at, last_job,
       last_job IS NOT NULL AND coalesce(enqueued_at < held_until, held_until = TIMESTAMP '9999-12-31') AS dedupe
  FROM (
    SELECT job_id, queue, key, enqueued_at,
           lag(job_id) OVER in_order AS last_job,
           max(own_held_until) OVER earlier AS held_until
      FROM holders
    WINDOW in_order AS (PARTITION BY queue, key ORDER BY enqueued_at NULLS LAST, job_id),
           earlier AS (PARTITION BY queue, key ORDER BY enqueued_at NULLS LAST, job_id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  )
