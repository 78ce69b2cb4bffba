-- Return jobs to their lanes and remove their leases. last_token stays, to recognise a repeated settlement (L6).
-- Index: the primary key.
UPDATE holdfast_jobs
   SET state = 'ready', attempts = s.attempts, crashes = s.crashes, run_at = s.run_at, available_at = s.available_at,
       released_for = s.released_for, suspect = s.suspect, last_error = s.last_error, failed_at = s.failed_at,
       last_verb = s.verb, last_token = token,
       token = NULL, fence = NULL, expires_at = NULL, reserved_at = NULL, started_at = NULL, worker = '',
       prefetched = 0
  FROM holdfast_settling AS s
 WHERE holdfast_jobs.seq = s.job AND s.state = 'ready'
