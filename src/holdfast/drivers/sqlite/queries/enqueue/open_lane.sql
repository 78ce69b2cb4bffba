-- Record that a lane has had a job. Index: the primary key.
INSERT OR IGNORE INTO holdfast_lanes (space, queue, type, priority) VALUES (?, ?, ?, ?)
