-- Like due.sql, with the size of the payload instead of the payload, for a reserve with a byte budget. SQLite knows the
-- size from the header of the row, so the pages of a large payload are not read. Index: holdfast_jobs_lane.
SELECT available_at, seq, {due_size_columns}, noted
  FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
 WHERE space = ? AND queue = ? AND type = ? AND priority = ? AND isolated = ? AND state = 'ready' AND turn = 1
   AND available_at <= ?
 ORDER BY available_at, seq
 LIMIT ?
