-- The number of leases that expired before an instant, up to a limit. Index: holdfast_jobs_leased; reads all leases.
SELECT count(*)
  FROM (SELECT 1 FROM holdfast_jobs INDEXED BY holdfast_jobs_leased
         WHERE space = :space AND state = 'inflight' AND expires_at <= :before LIMIT :limit) AS expired
