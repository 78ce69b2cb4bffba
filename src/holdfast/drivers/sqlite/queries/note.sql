-- Keep what an attempt left; what it leaves out stays as it was.
INSERT INTO holdfast_notes (space, job_id, progress, checkpoint) VALUES (?, ?, ?, ?)
ON CONFLICT (space, job_id) DO UPDATE
   SET progress = coalesce(excluded.progress, progress), checkpoint = coalesce(excluded.checkpoint, checkpoint)
