-- The facts that a call with a lease is judged by, for the jobs that are hot. Relies on holdfast_jobs_id.
SELECT j.id, j.seq, j.queue, j.domain,
       j.state, j.token, j.expires_at, j.reserved_at, j.available_at, j.run_at, j.attempts, j.max_attempts,
       j.crashes, j.max_crashes, j.released_for, j.cancel_requested, j.last_verb, j.last_token, j.last_error,
       j.failed_at
  FROM json_each(:ids) AS asked CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = asked.value
