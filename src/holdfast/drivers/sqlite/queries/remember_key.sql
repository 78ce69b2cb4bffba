-- The key stands for this job from now on; an older mapping has lapsed, or it would have been found.
INSERT INTO holdfast_dedupe (space, queue, key, job_id, digest, until) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE
   SET job_id = excluded.job_id, digest = excluded.digest, until = excluded.until
