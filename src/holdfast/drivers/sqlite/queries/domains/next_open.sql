-- The next domain with an open job, in the order of queues and names. Index: holdfast_jobs_domain, one probe.
SELECT queue, domain FROM holdfast_jobs INDEXED BY holdfast_jobs_domain
 WHERE space = ? AND domain IS NOT NULL AND (queue, domain) > (?, ?) ORDER BY queue, domain LIMIT 1
