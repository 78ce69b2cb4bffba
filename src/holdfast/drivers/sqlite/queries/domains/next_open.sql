-- The next domain with an open job, in the order of queues and names, and both as they are stored: a name that is not
-- UTF-8 is no parameter. Index: holdfast_jobs_domain, one probe.
SELECT queue, domain, CAST(queue AS BLOB), CAST(domain AS BLOB) FROM holdfast_jobs INDEXED BY holdfast_jobs_domain
 WHERE space = ? AND domain IS NOT NULL AND (queue, domain) > (CAST(? AS TEXT), CAST(? AS TEXT))
 ORDER BY queue, domain LIMIT 1
