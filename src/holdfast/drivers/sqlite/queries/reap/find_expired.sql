-- The expired leases of one queue, oldest first. Index: holdfast_jobs_leased.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns}
  FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
 WHERE j.space = :space AND j.queue = :queue AND j.state = 'inflight' AND j.expires_at <= :now
 ORDER BY j.expires_at, j.seq
 LIMIT :limit
