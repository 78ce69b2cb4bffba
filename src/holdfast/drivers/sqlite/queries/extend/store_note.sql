-- Store what an attempt reported; a NULL leaves the stored value unchanged. Index: the primary key.
INSERT INTO holdfast_notes (space, job_id, progress, checkpoint) VALUES (?, ?, ?, ?)
ON CONFLICT (space, job_id) DO UPDATE
   SET progress = coalesce(excluded.progress, progress), checkpoint = coalesce(excluded.checkpoint, checkpoint)
