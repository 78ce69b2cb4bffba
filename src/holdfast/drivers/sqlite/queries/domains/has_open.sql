-- Whether a domain has an open job. Index: holdfast_jobs_domain.
SELECT EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
                WHERE j.space = ? AND j.queue = ? AND j.domain = ?)
