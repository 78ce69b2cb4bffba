-- Every lease of one worker in one queue, expired or not. Index: holdfast_jobs_leased; reads all leases of the queue.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns}
  FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
 WHERE j.space = :space AND j.queue = :queue AND j.state = 'inflight' AND j.worker = :worker
 ORDER BY j.expires_at, j.seq
 LIMIT :limit
