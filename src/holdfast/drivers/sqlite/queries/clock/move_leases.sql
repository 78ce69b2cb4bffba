-- Let the leases that were granted later than :limit begin now, with the length that they have. Reads every live job.
UPDATE holdfast_jobs
   SET expires_at = :now + (expires_at - reserved_at), reserved_at = :now, started_at = min(started_at, :now),
       enqueued_at = min(enqueued_at, :now), available_at = min(available_at, :now)
 WHERE space = :space AND state = 'inflight' AND reserved_at > :limit
