-- Give the turn to the first job of each of these domains (L11). :domains is [[queue, domain], ...].
-- Index: holdfast_jobs_domain, one probe per domain.
UPDATE holdfast_jobs SET turn = 1
 WHERE turn = 0 AND seq IN (
   SELECT (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
            WHERE j.space = :space AND j.queue = json_extract(given.value, '$[0]')
              AND j.domain = json_extract(given.value, '$[1]')
            ORDER BY j.seq LIMIT 1)
     FROM json_each(:domains) AS given)
