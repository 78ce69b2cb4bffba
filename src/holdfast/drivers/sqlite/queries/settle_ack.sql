-- An ack, by far the most common end: judged and decided here, without a round trip through Python. Enters nothing
-- unless the job is in flight, under this token, and not expired (law L5). Relies on holdfast_jobs_id.
INSERT INTO holdfast_settling
  (item, job, queue, domain, verb, started_at, ending, state, attempts, crashes, run_at, available_at, last_error,
   failed_at, result, detail)
SELECT ?, seq, queue, domain, 'ack', ?, 'acked', 'done', attempts, crashes, run_at, available_at, last_error,
       failed_at, ?, ?
  FROM holdfast_jobs
 WHERE space = ? AND id = ? AND state = 'inflight' AND token = ? AND expires_at > ?
