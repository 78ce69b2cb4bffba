-- Return the first parked jobs of a key to their lane, at the places that they had. Index: holdfast_jobs_parked, the
-- primary key.
UPDATE holdfast_jobs SET available_at = parked_from, parked_from = NULL
 WHERE seq IN (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_parked
                WHERE j.space = ? AND j.queue = ? AND j.type = ? AND j.priority = ? AND j.isolated = ?
                  AND j.limit_key = ? AND j.parked_from IS NOT NULL
                ORDER BY j.parked_from, j.seq LIMIT ?)
