-- Delete idempotency keys whose window has ended and whose job is done or removed. Another job is open or may be
-- requeued, and then its key is valid again. Index: holdfast_dedupe_until and both id indexes.
DELETE FROM holdfast_dedupe
 WHERE (space, queue, key) IN
   (SELECT d.space, d.queue, d.key FROM holdfast_dedupe AS d INDEXED BY holdfast_dedupe_until
     WHERE d.space = :space AND d.until <= :now
       AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.space = d.space AND j.id = d.job_id)
       AND coalesce((SELECT e.state FROM holdfast_ended AS e WHERE e.space = d.space AND e.id = d.job_id), 'done')
           = 'done'
     LIMIT :limit)
