-- Pick due jobs of each lane and lease them (L3, L10).

-- name: checkpoints
-- The checkpoints that earlier attempts of these jobs stored. Index: the primary key.
SELECT n.job_id, n.checkpoint
  FROM json_each(:ids) AS given CROSS JOIN holdfast_notes AS n ON n.space = :space AND n.job_id = given.value


-- name: due
-- The due jobs of one lane, in order; the caller stops reading when it has enough. Index: holdfast_jobs_lane.
SELECT available_at, seq, {due_columns}, noted
  FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
 WHERE space = ? AND queue = ? AND type = ? AND priority = ? AND isolated = ? AND state = 'ready' AND turn = 1
   AND available_at <= ?
 ORDER BY available_at, seq
 LIMIT ?


-- name: due_sizes
-- Like due, with the size of the payload instead of the payload, for a reserve with a byte budget. SQLite knows the
-- size from the header of the row, so the pages of a large payload are not read. Index: holdfast_jobs_lane.
SELECT available_at, seq, {due_size_columns}, noted
  FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
 WHERE space = ? AND queue = ? AND type = ? AND priority = ? AND isolated = ? AND state = 'ready' AND turn = 1
   AND available_at <= ?
 ORDER BY available_at, seq
 LIMIT ?


-- name: find_lanes
-- The lanes of one queue whose first job is due. Index: holdfast_jobs_lane, one probe for the isolated jobs of a queue,
-- type and priority and one for the others. The cost does not depend on how many jobs the lanes hold.
SELECT l.queue, l.type, l.priority, kinds.isolated
  FROM holdfast_lanes AS l CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
 WHERE l.space = :space AND l.queue = :queue
   AND EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
                  AND j.isolated = kinds.isolated AND j.state = 'ready' AND j.turn = 1 AND j.available_at <= :now)


-- name: find_lanes_of_types
-- Like find_lanes, for the types that a worker knows: lanes of other types are not read. :types is a JSON list.
SELECT l.queue, l.type, l.priority, kinds.isolated
  FROM json_each(:types) AS given
 CROSS JOIN holdfast_lanes AS l ON l.space = :space AND l.queue = :queue AND l.type = given.value
 CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
 WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
                  AND j.isolated = kinds.isolated AND j.state = 'ready' AND j.turn = 1 AND j.available_at <= :now)


-- name: lease
-- Lease ready jobs and count their attempts (L7), up to the largest count. :jobs is a JSON list of seqs; :bits holds 16 random bytes per job, in
-- the same order. The tokens are built here in the form of model.lease.make_tokens. Index: the primary key.
UPDATE holdfast_jobs
   SET state = 'inflight', attempts = attempts + (attempts < 2147483647), fence = :first + taken.key,
       token = (:first + taken.key) || '.' || lower(hex(substr(:bits, taken.key * 16 + 1, 16))),
       expires_at = :expires_at, reserved_at = :now, worker = :worker, started_at = NULL,
       prefetched = :prefetched
  FROM json_each(:jobs) AS taken
 WHERE holdfast_jobs.seq = taken.value


-- name: limits
-- The settings of these queues and of their types, each with the number of its leases. Leases are counted only where a
-- setting limits them, and then there are at most as many as the limit. Those of a queue tell also whether jobs have
-- arrived that begin or end the wait of a domain. Index: holdfast_jobs_leased, holdfast_domains_arrived.
SELECT s.queue, s.type, {s.settings_columns}, s.level, s.level_at, s.keyed,
       s.type = '' AND EXISTS (SELECT 1 FROM holdfast_domains AS d INDEXED BY holdfast_domains_arrived
                                WHERE d.space = s.space AND d.queue = s.queue AND d.arrived = 1),
       CASE WHEN s.max_inflight IS NULL AND NOT s.probing THEN 0 ELSE
         (SELECT count(*) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
           WHERE j.space = s.space AND j.queue = s.queue AND j.state = 'inflight' AND s.type IN ('', j.type)) END
  FROM json_each(:queues) AS given CROSS JOIN holdfast_settings AS s ON s.space = :space AND s.queue = given.value


-- name: payloads
-- The payloads of jobs that due_sizes found, by seq. :jobs is a JSON list of seqs. Index: the primary key.
SELECT j.seq, {payload}
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_jobs AS j ON j.seq = given.value


-- name: spend
-- Store the rate bucket after a reserve. Index: the primary key.
UPDATE holdfast_settings SET level = ?, level_at = ? WHERE space = ? AND queue = ? AND type = ?
