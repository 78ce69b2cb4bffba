-- Move the end of a valid lease; when the handler began is kept once it is known.
UPDATE holdfast_jobs SET expires_at = ?, started_at = coalesce(?, started_at), noted = max(noted, ?) WHERE seq = ?
