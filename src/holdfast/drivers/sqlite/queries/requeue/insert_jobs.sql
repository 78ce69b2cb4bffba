-- Copy ended jobs back to the table of live jobs, in the order of :jobs. Each gets a new seq, so it is the last of its
-- lane, and of the jobs of its domain that have no offset. Those in :kept halted their domains and keep their places.
-- Both are JSON lists of seqs. Index: the primary key.
INSERT INTO holdfast_jobs
  (seq, space, {fixed_columns}, turn, available_at, enqueued_at, noted, last_verb, last_token, last_error, failed_at)
SELECT CASE WHEN e.seq IN (SELECT value FROM json_each(:kept)) THEN e.seq END, e.space, {e.fixed_columns},
       e.domain IS NULL, :now, e.enqueued_at, e.noted <> 0, e.last_verb, e.last_token, e.last_error, e.failed_at
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_ended AS e ON e.seq = given.value
 ORDER BY given.key
