-- Insert the acks of a batch that are valid: the job is in flight, the token is equal, the lease has not expired (L5).
-- :ids is a JSON list with '' for items that are left to Python. :tokens and :starts are blobs of fields with a fixed
-- width, in the same order: reading a field costs a tenth of a json_extract or of a bound parameter.
-- Index: holdfast_jobs_id.
INSERT INTO holdfast_acking (item, job, queue, domain, "offset", limit_key, started_at)
SELECT given.key + 1, j.seq, j.queue, j.domain, j."offset", j.limit_key,
       nullif(CAST(substr(:starts, given.key * :width + 1, :width) AS INTEGER), 0)
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
 WHERE j.state = 'inflight'
   AND j.token = rtrim(CAST(substr(:tokens, given.key * :width + 1, :width) AS TEXT))
   AND j.expires_at > :now
