-- Every domain that a job has left hands its turn to the one that is first now. Relies on holdfast_jobs_domain.
UPDATE holdfast_jobs SET turn = 1
 WHERE turn = 0 AND seq IN (
   SELECT (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
            WHERE j.space = :space AND j.queue = s.queue AND j.domain = s.domain
            ORDER BY j.seq LIMIT 1)
     FROM (SELECT DISTINCT queue, domain FROM holdfast_settling WHERE domain IS NOT NULL AND state <> 'ready') AS s)
