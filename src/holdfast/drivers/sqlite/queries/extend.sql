-- Extend leases and store notes.

-- name: move_expiry
-- Move the end of a valid lease. started_at keeps the first value that is known. Index: the primary key.
UPDATE holdfast_jobs SET expires_at = ?, started_at = coalesce(?, started_at), noted = max(noted, ?) WHERE seq = ?


-- name: store_note
-- Store what an attempt reported; a NULL leaves the stored value unchanged. Index: the primary key.
INSERT INTO holdfast_notes (space, job_id, progress, checkpoint) VALUES (?, ?, ?, ?)
ON CONFLICT (space, job_id) DO UPDATE
   SET progress = coalesce(excluded.progress, progress), checkpoint = coalesce(excluded.checkpoint, checkpoint)
