-- The due jobs of one lane, in order; the reader stops when it has enough. Relies on holdfast_jobs_lane.
SELECT available_at, seq, id, payload, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, last_error, failed_at, noted
  FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
 WHERE space = ? AND queue = ? AND type = ? AND priority = ? AND state = 'ready' AND turn = 1 AND available_at <= ?
 ORDER BY available_at, seq
 LIMIT ?
