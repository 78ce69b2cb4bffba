-- Let a domain begin at its first open offset. The offsets before it have not ended: one that arrives runs next.
-- Index: the primary key, holdfast_jobs_domain.
UPDATE holdfast_domains
   SET start = coalesce((SELECT j."offset" FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
                          WHERE j.space = holdfast_domains.space AND j.queue = holdfast_domains.queue
                            AND j.domain = holdfast_domains.domain AND j."offset" IS NOT NULL
                          ORDER BY j."offset", j.seq LIMIT 1), start)
 WHERE space = ? AND queue = ? AND domain = ?
