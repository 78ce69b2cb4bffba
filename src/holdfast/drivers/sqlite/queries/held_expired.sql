-- Leases of one queue that are past their end, oldest first. Relies on holdfast_jobs_leased.
SELECT j.id, j.seq, j.queue, j.domain,
       j.state, j.token, j.expires_at, j.reserved_at, j.available_at, j.run_at, j.attempts, j.max_attempts,
       j.crashes, j.max_crashes, j.released_for, j.cancel_requested, j.last_verb, j.last_token, j.last_error,
       j.failed_at
  FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
 WHERE j.space = :space AND j.queue = :queue AND j.state = 'inflight' AND j.expires_at <= :now
 ORDER BY j.expires_at, j.seq
 LIMIT :limit
