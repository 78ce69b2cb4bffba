-- Give the turn to the first job of each domain of an acked job (L11); see any_special_domain.sql. Two probes for the
-- first job: see domains/heads.sql. Index: holdfast_jobs_domain, the primary key.
UPDATE holdfast_jobs SET turn = 1
 WHERE seq IN (
   SELECT coalesce(
          (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
            WHERE j.space = :space AND j.queue = a.queue AND j.domain = a.domain AND j."offset" IS NOT NULL
            ORDER BY j."offset", j.seq LIMIT 1),
          (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
            WHERE j.space = :space AND j.queue = a.queue AND j.domain = a.domain AND j."offset" IS NULL
            ORDER BY j.seq LIMIT 1))
     FROM holdfast_acking AS a
    WHERE a.domain IS NOT NULL)
