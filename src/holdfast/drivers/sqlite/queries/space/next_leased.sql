-- The next space that has leases. Index: holdfast_jobs_leased.
SELECT min(space) FROM holdfast_jobs INDEXED BY holdfast_jobs_leased WHERE state = 'inflight' AND space > :after
