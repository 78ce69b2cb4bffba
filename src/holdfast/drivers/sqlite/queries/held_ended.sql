-- The same for jobs that have ended: only a repeated settlement can still concern them. Relies on holdfast_ended_id.
SELECT e.id, e.seq, e.queue, e.domain,
       e.state, NULL, NULL, NULL, e.available_at, e.run_at, e.attempts, e.max_attempts,
       e.crashes, e.max_crashes, 0, e.cancel_requested, e.last_verb, e.last_token, e.last_error,
       e.failed_at
  FROM json_each(:ids) AS asked CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = asked.value
