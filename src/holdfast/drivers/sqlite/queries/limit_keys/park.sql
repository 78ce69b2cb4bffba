-- Park the due jobs of a key, but not those that are about to be leased. :taken is a JSON list of seqs.
-- Index: holdfast_jobs_key_ready, the primary key.
UPDATE holdfast_jobs SET parked_from = available_at, available_at = :never
 WHERE seq IN (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_key_ready
                WHERE j.space = :space AND j.queue = :queue AND j.limit_key = :key AND j.available_at <= :now
                  AND j.state = 'ready' AND j.turn = 1 AND j.parked_from IS NULL
                  AND j.seq NOT IN (SELECT value FROM json_each(:taken))
                LIMIT :limit)
