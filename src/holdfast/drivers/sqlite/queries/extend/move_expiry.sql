-- Move the end of a valid lease. started_at keeps the first value that is known. Index: the primary key.
UPDATE holdfast_jobs SET expires_at = ?, started_at = coalesce(?, started_at), noted = max(noted, ?) WHERE seq = ?
