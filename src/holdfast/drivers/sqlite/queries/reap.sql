-- Find leases that have expired, or those of a worker.

-- name: find_expired
-- The expired leases of one queue, oldest first. Index: holdfast_jobs_leased.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns}
  FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
 WHERE j.space = :space AND j.queue = :queue AND j.state = 'inflight' AND j.expires_at <= :now
 ORDER BY j.expires_at, j.seq
 LIMIT :limit


-- name: find_of_worker
-- Every lease of one worker in one queue, expired or not. Index: holdfast_jobs_leased; reads all leases of the queue.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns}
  FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
 WHERE j.space = :space AND j.queue = :queue AND j.state = 'inflight' AND j.worker = :worker
 ORDER BY j.expires_at, j.seq
 LIMIT :limit


-- name: find_queues
-- The queues that have leases. Index: holdfast_jobs_leased; skips from one queue to the next, one probe per queue.
WITH RECURSIVE queues (queue) AS (
  SELECT (SELECT min(queue) FROM holdfast_jobs INDEXED BY holdfast_jobs_leased
           WHERE space = :space AND state = 'inflight')
  UNION ALL
  SELECT (SELECT min(j.queue) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
           WHERE j.space = :space AND j.state = 'inflight' AND j.queue > queues.queue)
    FROM queues WHERE queues.queue IS NOT NULL
)
SELECT queue FROM queues WHERE queue IS NOT NULL
