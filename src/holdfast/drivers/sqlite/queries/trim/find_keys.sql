-- Idempotency keys that trim has to look at now, with whether they stay: the key of a done or removed job goes with its
-- window; another job is open or may be requeued, and then its key is valid again. Index: holdfast_dedupe_expiry and
-- both id indexes.
SELECT d.queue, d.key,
       EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.space = d.space AND j.id = d.job_id)
       OR coalesce((SELECT e.state FROM holdfast_ended AS e WHERE e.space = d.space AND e.id = d.job_id), 'done')
          <> 'done'
  FROM holdfast_dedupe AS d INDEXED BY holdfast_dedupe_expiry
 WHERE d.space = :space AND max(d.until, d.check_at) <= :now
 ORDER BY max(d.until, d.check_at) LIMIT :limit
