-- Which of these idempotency keys still stand for a job: within their window, or while the job has not ended.
-- :keys is [[queue, key], ...].
SELECT d.queue, d.key, d.job_id, d.digest
  FROM json_each(:keys) AS asked
 CROSS JOIN holdfast_dedupe AS d
    ON d.space = :space AND d.queue = json_extract(asked.value, '$[0]') AND d.key = json_extract(asked.value, '$[1]')
 WHERE d.until > :now
    OR EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.space = d.space AND j.id = d.job_id)
