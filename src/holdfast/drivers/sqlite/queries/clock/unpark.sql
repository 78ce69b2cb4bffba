-- Return every parked job to its lane. Index: holdfast_jobs_parked.
UPDATE holdfast_jobs INDEXED BY holdfast_jobs_parked SET available_at = parked_from, parked_from = NULL
 WHERE space = :space AND parked_from IS NOT NULL
