-- Ready to in flight; the attempt counts from here.
UPDATE holdfast_jobs
   SET state = 'inflight', attempts = attempts + 1, token = ?, fence = ?, expires_at = ?, reserved_at = ?, worker = ?,
       started_at = NULL
 WHERE seq = ?
