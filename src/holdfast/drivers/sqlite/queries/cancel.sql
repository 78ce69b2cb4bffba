-- Cancel ready jobs at once, and flag running ones.

-- name: delete_jobs
-- Delete the cancelled jobs that insert_ended has copied. Index: the primary key.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT value FROM json_each(:jobs))


-- name: insert_ended
-- Copy ready jobs that are cancelled to the table of ended jobs. Index: the primary key.
-- OR REPLACE: a job that stands in both tables must not fail the batch that ends it (L5).
INSERT OR REPLACE INTO holdfast_ended
  (seq, space, {fixed_columns}, available_at, enqueued_at, run_at, attempts, crashes, last_error, failed_at,
   cancel_requested, noted, state, ended_at, last_verb, last_token)
SELECT j.seq, j.space, {j.fixed_columns}, coalesce(j.parked_from, j.available_at), j.enqueued_at, j.run_at, j.attempts,
       j.crashes, j.last_error, j.failed_at, 0, j.noted, 'cancelled', :now, j.last_verb, j.last_token
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_jobs AS j ON j.seq = given.value


-- name: insert_ledger
-- Write the ledger rows of ready jobs that are cancelled. :jobs is a JSON list of seqs. Index: the primary key.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT j.space, :written + 1 + given.key, j.id, j.type, j.queue, j.domain, j."offset", min(j.attempts, 2147483647),
       NULL, '', j.enqueued_at, coalesce(j.parked_from, j.available_at), NULL, NULL, :now, 'cancelled', 'cancelled', '', ''
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_jobs AS j ON j.seq = given.value


-- name: is_requested
-- Whether a cancel was requested for one of these jobs. :ids is a JSON list. Index: holdfast_jobs_id.
SELECT EXISTS (
  SELECT 1 FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
   WHERE j.cancel_requested)


-- name: request
-- Flag running jobs; their next extend returns cancel_requested. :jobs is a JSON list of seqs. Index: the primary key.
UPDATE holdfast_jobs SET cancel_requested = 1 WHERE seq IN (SELECT value FROM json_each(:jobs))
