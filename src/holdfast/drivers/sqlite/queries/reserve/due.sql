-- The due jobs of one lane, in order; the caller stops reading when it has enough. Index: holdfast_jobs_lane.
SELECT available_at, seq, {due_columns}, noted
  FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
 WHERE space = ? AND queue = ? AND type = ? AND priority = ? AND isolated = ? AND state = 'ready' AND turn = 1
   AND available_at <= ?
 ORDER BY available_at, seq
 LIMIT ?
