-- The types of the jobs in flight of a queue, up to a limit. Index: holdfast_jobs_leased, without the table.
SELECT type FROM holdfast_jobs INDEXED BY holdfast_jobs_leased
 WHERE space = :space AND queue = :queue AND state = 'inflight' LIMIT :limit
