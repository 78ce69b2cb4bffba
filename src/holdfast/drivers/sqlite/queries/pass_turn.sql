-- The first job of each of these domains gets the turn, unless it has it. :domains is [[queue, domain], ...].
-- Relies on holdfast_jobs_domain.
UPDATE holdfast_jobs SET turn = 1
 WHERE turn = 0 AND seq IN (
   SELECT (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
            WHERE j.space = :space AND j.queue = json_extract(asked.value, '$[0]') AND j.domain = json_extract(asked.value, '$[1]')
            ORDER BY j.seq LIMIT 1)
     FROM json_each(:domains) AS asked)
