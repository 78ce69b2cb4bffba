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
