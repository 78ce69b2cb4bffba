-- Copy jobs that have ended to their table; payloads are copied inside SQLite. Index: the primary key.
-- OR REPLACE: a job that stands in both tables must not fail the batch that ends it (L5).
INSERT OR REPLACE INTO holdfast_ended
  (seq, space, {fixed_columns}, available_at, enqueued_at, run_at, attempts, crashes, last_error, failed_at,
   cancel_requested, noted, state, ended_at, last_verb, last_token, dead_reason, dead_at, result)
SELECT j.seq, j.space, {j.fixed_columns}, s.available_at, j.enqueued_at, s.run_at, s.attempts, s.crashes, s.last_error,
       s.failed_at, j.cancel_requested, j.noted, s.state, :now, s.verb, j.token, s.dead_reason, s.dead_at, s.result
  FROM holdfast_settling AS s CROSS JOIN holdfast_jobs AS j ON j.seq = s.job
 WHERE s.state <> 'ready'
