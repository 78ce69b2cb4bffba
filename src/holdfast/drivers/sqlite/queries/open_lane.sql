-- The lane has had a job.
INSERT OR IGNORE INTO holdfast_lanes (space, queue, type, priority) VALUES (?, ?, ?, ?)
