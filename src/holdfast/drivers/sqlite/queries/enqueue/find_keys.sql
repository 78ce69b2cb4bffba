-- Which of these idempotency keys are taken: their window has not ended, or their job is open, or ready (L12).
-- :keys is [[queue, key], ...]. Index: the primary key of holdfast_dedupe, holdfast_jobs_id.
SELECT d.queue, d.key, d.job_id, d.digest
  FROM json_each(:keys) AS given
 CROSS JOIN holdfast_dedupe AS d
    ON d.space = :space AND d.queue = json_extract(given.value, '$[0]') AND d.key = json_extract(given.value, '$[1]')
 WHERE d.until > :now
    OR EXISTS (SELECT 1 FROM holdfast_jobs AS j
                WHERE j.space = d.space AND j.id = d.job_id AND (j.state = 'ready' OR NOT d.while_queued))
