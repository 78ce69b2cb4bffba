-- The number of leases of a space, up to a limit. Index: holdfast_jobs_leased.
SELECT count(*) FROM (SELECT 1 FROM holdfast_jobs INDEXED BY holdfast_jobs_leased
                       WHERE space = :space AND state = 'inflight' LIMIT :limit) AS held
