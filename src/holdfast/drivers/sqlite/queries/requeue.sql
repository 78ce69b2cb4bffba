-- Make ended jobs ready again.

-- name: find_taken
-- Which of these offsets an open job has. :offsets is [[queue, domain, offset], ...]. Index: holdfast_jobs_domain.
SELECT j.queue, j.domain, j."offset"
  FROM json_each(:offsets) AS given
 CROSS JOIN holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
    ON j.space = :space AND j.queue = json_extract(given.value, '$[0]') AND j.domain = json_extract(given.value, '$[1]')
   AND j."offset" = json_extract(given.value, '$[2]')


-- name: insert_jobs
-- Copy ended jobs back to the table of live jobs, in the order of :jobs. Each gets a new seq, so it is the last of its
-- lane, and of the jobs of its domain that have no offset. Those in :kept halted their domains and keep their places.
-- Both are JSON lists of seqs. Index: the primary key.
INSERT INTO holdfast_jobs
  (seq, space, {fixed_columns}, turn, available_at, enqueued_at, noted, last_verb, last_token, last_error, failed_at)
SELECT CASE WHEN e.seq IN (SELECT value FROM json_each(:kept)) THEN e.seq END, e.space, {e.fixed_columns},
       e.domain IS NULL, :now, e.enqueued_at, e.noted <> 0, e.last_verb, e.last_token, e.last_error, e.failed_at
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_ended AS e ON e.seq = given.value
 ORDER BY given.key


-- name: insert_ledger
-- Write the ledger rows of jobs that become ready again. :jobs is a JSON list of seqs; the position of a seq numbers
-- its row. Index: the primary key.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT e.space, :written + 1 + given.key, e.id, e.type, e.queue, e.domain, e."offset", min(e.attempts, 2147483647),
       NULL, '', e.enqueued_at, e.available_at, NULL, NULL, :now, 'requeued', 'ready', '', ''
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_ended AS e ON e.seq = given.value


-- name: read
-- Dead and cancelled jobs without their payloads and results, to see whether their rows can be read. :ids is a JSON list.
-- Index: holdfast_ended_id.
SELECT {e.payloadless_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
 WHERE e.state <> 'done'
