-- Every lease of a worker that is known to be dead, in one queue, expired or not. Reads the leases in flight.
SELECT j.id, j.seq, j.queue, j.domain,
       j.state, j.token, j.expires_at, j.reserved_at, j.available_at, j.run_at, j.attempts, j.max_attempts,
       j.crashes, j.max_crashes, j.released_for, j.cancel_requested, j.last_verb, j.last_token, j.last_error,
       j.failed_at
  FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
 WHERE j.space = :space AND j.queue = :queue AND j.state = 'inflight' AND j.worker = :worker
 ORDER BY j.expires_at, j.seq
 LIMIT :limit
