-- Idempotency keys past their window whose job has ended. Relies on holdfast_dedupe_until.
DELETE FROM holdfast_dedupe
 WHERE (space, queue, key) IN
   (SELECT d.space, d.queue, d.key FROM holdfast_dedupe AS d INDEXED BY holdfast_dedupe_until
     WHERE d.space = :space AND d.until <= :now
       AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.space = d.space AND j.id = d.job_id)
     LIMIT :limit)
