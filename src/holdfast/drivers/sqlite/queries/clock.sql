-- Repair what was written while the clock of the host was ahead.

-- name: count_future
-- Count the jobs, rate buckets and stopped domains with an instant of the store's clock that is later than :limit.
-- Reads every live job.
SELECT (SELECT count(*) FROM holdfast_jobs
         WHERE space = :space AND (reserved_at > :limit OR enqueued_at > :limit OR failed_at > :limit))
     + (SELECT count(*) FROM holdfast_settings WHERE space = :space AND level_at > :limit)
     + (SELECT count(*) FROM holdfast_limit_keys WHERE space = :space AND level_at > :limit)
     + (SELECT count(*) FROM holdfast_domains WHERE space = :space AND (halted_at > :limit OR waiting_since > :limit))


-- name: move_buckets
-- Let the rate buckets that were used later than :limit fill from now on. Index: the primary key.
UPDATE holdfast_settings SET level_at = :now WHERE space = :space AND level_at > :limit


-- name: move_domains
-- Let the domains that stopped later than :limit have stopped now. Index: the primary key.
UPDATE holdfast_domains SET halted_at = min(halted_at, :now), waiting_since = min(waiting_since, :now)
 WHERE space = :space AND (halted_at > :limit OR waiting_since > :limit)


-- name: move_keys
-- Let the rates of keys that were used later than :limit fill from now on, and end the holds that last longer: nothing
-- tells whether such a hold is of the wrong clock. Index: the primary key.
UPDATE holdfast_limit_keys
   SET level_at = min(level_at, :now), held_until = CASE WHEN held_until <= :limit THEN held_until END
 WHERE space = :space AND (level_at > :limit OR held_until > :limit)


-- name: move_leases
-- Let the leases that were granted later than :limit begin now, with the length that they have. Reads every live job.
UPDATE holdfast_jobs
   SET expires_at = :now + (expires_at - reserved_at), reserved_at = :now, started_at = min(started_at, :now),
       enqueued_at = min(enqueued_at, :now), available_at = min(available_at, :now)
 WHERE space = :space AND state = 'inflight' AND reserved_at > :limit


-- name: move_ready
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


-- name: unpark
-- Return every parked job to its lane. Index: holdfast_jobs_parked.
UPDATE holdfast_jobs INDEXED BY holdfast_jobs_parked SET available_at = parked_from, parked_from = NULL
 WHERE space = :space AND parked_from IS NOT NULL


-- name: wake_keys
-- Let the next reserve look at every key that had parked jobs. Index: the primary key.
UPDATE holdfast_limit_keys SET wake_at = 0 WHERE space = :space AND parked
