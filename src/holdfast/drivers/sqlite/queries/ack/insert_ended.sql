-- Copy acked jobs to the table of ended jobs; payloads are copied inside SQLite. Index: the primary key.
-- OR REPLACE: a job that stands in both tables must not fail the batch that ends it (L5).
INSERT OR REPLACE INTO holdfast_ended
  (seq, space, {fixed_columns}, available_at, enqueued_at, run_at, attempts, crashes, last_error, failed_at,
   cancel_requested, noted, state, ended_at, last_verb, last_token, result)
SELECT j.seq, j.space, {j.fixed_columns}, j.available_at, j.enqueued_at, j.run_at, j.attempts, j.crashes, j.last_error,
       j.failed_at, j.cancel_requested, j.noted, 'done', :now, 'ack', j.token, a.result
  FROM holdfast_acking AS a CROSS JOIN holdfast_jobs AS j ON j.seq = a.job
