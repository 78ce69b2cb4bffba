-- Whether a key has parked jobs. Index: holdfast_jobs_parked.
SELECT EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_parked
                WHERE j.space = :space AND j.queue = :queue AND j.limit_key = :key AND j.parked_from IS NOT NULL)
