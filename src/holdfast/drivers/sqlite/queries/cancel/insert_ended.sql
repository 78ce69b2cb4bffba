-- Copy ready jobs that are cancelled to the table of ended jobs. Index: the primary key.
-- OR REPLACE: a job that stands in both tables must not fail the batch that ends it (L5).
INSERT OR REPLACE INTO holdfast_ended
  (seq, space, {fixed_columns}, available_at, enqueued_at, run_at, attempts, crashes, last_error, failed_at,
   cancel_requested, noted, state, ended_at, last_verb, last_token)
SELECT j.seq, j.space, {j.fixed_columns}, coalesce(j.parked_from, j.available_at), j.enqueued_at, j.run_at, j.attempts,
       j.crashes, j.last_error, j.failed_at, 0, j.noted, 'cancelled', :now, j.last_verb, j.last_token
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_jobs AS j ON j.seq = given.value
