-- Make the jobs due that were enqueued, or whose last attempt ended, later than :limit. A job that its producer scheduled
-- keeps its run_at until its first attempt. Reads every live job, and the ledger once.
UPDATE holdfast_jobs
   SET available_at = CASE WHEN last_verb IS NULL AND run_at IS NOT NULL THEN available_at
                           ELSE min(available_at, :now) END,
       run_at = CASE WHEN last_verb IS NOT NULL AND run_at > :now THEN NULL ELSE run_at END,
       enqueued_at = min(enqueued_at, :now),
       failed_at = min(failed_at, :now)
 WHERE space = :space AND state = 'ready'
   AND (enqueued_at > :limit OR failed_at > :limit
        OR available_at > :limit
           AND id IN (SELECT l.job_id FROM holdfast_ledger AS l WHERE l.space = :space AND l.ended_at > :limit))
