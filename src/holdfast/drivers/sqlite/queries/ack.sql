-- Enter the valid acks of a batch, judged here: in flight, under this token, not expired (law L5). :ids is a JSON list
-- with '' for items that are no plain acks; :tokens and :starts are blobs of the same order in fields of a fixed width,
-- which cost a tenth of a json_extract or a bound parameter. Relies on holdfast_jobs_id.
INSERT INTO holdfast_acking (item, job, queue, domain, started_at)
SELECT asked.key + 1, j.seq, j.queue, j.domain,
       nullif(CAST(substr(:starts, asked.key * :width + 1, :width) AS INTEGER), 0)
  FROM json_each(:ids) AS asked CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = asked.value
 WHERE j.state = 'inflight'
   AND j.token = rtrim(CAST(substr(:tokens, asked.key * :width + 1, :width) AS TEXT))
   AND j.expires_at > :now
