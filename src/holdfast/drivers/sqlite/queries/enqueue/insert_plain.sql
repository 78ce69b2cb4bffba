-- Insert a new job without a domain, if no more than its row is needed: its id is unknown, its lane is open, and no
-- lease was granted after the instant of the insert. Otherwise insert nothing: enqueue.py then runs the statements that
-- answer for the known id, open the lane, and hold the clock.
-- Index: holdfast_jobs_id, holdfast_ended_id, the primary keys of holdfast_lanes and holdfast_spaces; one probe each.
INSERT INTO holdfast_jobs (space, turn, available_at, enqueued_at, {insert_columns})
SELECT ?, ?, ?, ?, {insert_values}
 WHERE NOT EXISTS (SELECT 1 FROM holdfast_ended AS e WHERE e.space = ? AND e.id = ?)
   AND EXISTS (SELECT 1 FROM holdfast_lanes AS l WHERE l.space = ? AND l.queue = ? AND l.type = ? AND l.priority = ?)
   AND NOT EXISTS (SELECT 1 FROM holdfast_spaces AS s WHERE s.space = ? AND s.clock > ?)
ON CONFLICT (space, id) DO NOTHING
