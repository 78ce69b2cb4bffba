-- Limits by key: jobs that are set aside, and when they wake (ADR 0035).

-- name: clear_keyed
-- Let reserve no longer look at the keys of a queue that has none left. Index: the primary keys.
UPDATE holdfast_settings SET keyed = 0
 WHERE space = :space AND queue = :queue AND type = ''
   AND NOT EXISTS (SELECT 1 FROM holdfast_limit_keys AS k WHERE k.space = :space AND k.queue = :queue)


-- name: end_holds
-- End the holds of all keys of a queue, and let the next reserve look at their parked jobs. Index: the primary key.
UPDATE holdfast_limit_keys SET held_until = NULL, wake_at = CASE WHEN parked THEN 0 END WHERE space = ? AND queue = ?


-- name: find_keyed
-- The queues whose keys reserve looks at, with their settings. There are few settings. Index: the primary key.
SELECT queue, {settings_columns} FROM holdfast_settings WHERE space = :space AND type = '' AND keyed


-- name: find_parked_lanes
-- The lanes in which a key has parked jobs. Index: holdfast_jobs_parked, one probe per lane.
SELECT l.queue, l.type, l.priority, kinds.isolated
  FROM holdfast_lanes AS l CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
 WHERE l.space = :space AND l.queue = :queue
   AND EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_parked
                WHERE j.space = l.space AND j.queue = l.queue AND j.limit_key = :key AND j.type = l.type
                  AND j.priority = l.priority AND j.isolated = kinds.isolated AND j.parked_from IS NOT NULL)


-- name: find_woken
-- The keys of one queue whose parked jobs reserve must look at now. Index: holdfast_limit_keys_wake.
SELECT key FROM holdfast_limit_keys INDEXED BY holdfast_limit_keys_wake
 WHERE space = :space AND queue = :queue AND wake_at <= :now
 ORDER BY wake_at LIMIT :limit


-- name: hold
-- Reserve no job of a key before an instant; a longer hold stays. Index: the primary key.
INSERT INTO holdfast_limit_keys (space, queue, key, held_until) VALUES (?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE SET held_until = max(coalesce(held_until, 0), excluded.held_until)


-- name: is_parked
-- Whether a key has parked jobs. Index: holdfast_jobs_parked.
SELECT EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_parked
                WHERE j.space = :space AND j.queue = :queue AND j.limit_key = :key AND j.parked_from IS NOT NULL)


-- name: park
-- Park the due jobs of a key, but not those that are about to be leased. :taken is a JSON list of seqs.
-- Index: holdfast_jobs_key_ready, the primary key.
UPDATE holdfast_jobs SET parked_from = available_at, available_at = :never
 WHERE seq IN (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_key_ready
                WHERE j.space = :space AND j.queue = :queue AND j.limit_key = :key AND j.available_at <= :now
                  AND j.state = 'ready' AND j.turn = 1 AND j.parked_from IS NULL
                  AND j.seq NOT IN (SELECT value FROM json_each(:taken))
                LIMIT :limit)


-- name: read
-- What is stored of a limit key, and how many of its jobs are in flight. Index: the primary key,
-- holdfast_jobs_key_leased.
SELECT k.level, k.level_at, k.held_until,
       (SELECT count(*) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_key_leased
         WHERE j.space = :space AND j.queue = :queue AND j.limit_key = :key AND j.state = 'inflight')
  FROM (SELECT 1) AS given LEFT JOIN holdfast_limit_keys AS k ON k.space = :space AND k.queue = :queue AND k.key = :key


-- name: set_keyed
-- Let reserve look at the keys of a queue. A new row has the default settings. Index: the primary key.
INSERT INTO holdfast_settings (space, queue, type, keyed, {settings_columns}) VALUES (?, ?, '', 1, {settings_values})
ON CONFLICT (space, queue, type) DO UPDATE SET keyed = 1 WHERE keyed = 0


-- name: set_wake
-- Store whether a limit key has parked jobs, and when reserve must look at them. Index: the primary key.
INSERT INTO holdfast_limit_keys (space, queue, key, parked, wake_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE SET parked = excluded.parked, wake_at = excluded.wake_at


-- name: spend
-- Store the rate bucket of a limit key. Index: the primary key.
INSERT INTO holdfast_limit_keys (space, queue, key, level, level_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE SET level = excluded.level, level_at = excluded.level_at


-- name: trim
-- Delete the keys of one queue of which nothing must be remembered: no parked job, no hold, an unused rate. :rate is NULL
-- if the keys have no rate; :full is the level from which on it is unused. Index: the primary key; reads all keys of the
-- queue.
DELETE FROM holdfast_limit_keys
 WHERE space = :space AND queue = :queue AND NOT parked AND coalesce(held_until, 0) <= :now
   AND (:rate IS NULL OR level IS NULL OR level + max(0, :now - level_at) * :rate >= :full)


-- name: unpark
-- Return the first parked jobs of a key to their lane, at the places that they had. Index: holdfast_jobs_parked, the
-- primary key.
UPDATE holdfast_jobs SET available_at = parked_from, parked_from = NULL
 WHERE seq IN (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_parked
                WHERE j.space = ? AND j.queue = ? AND j.type = ? AND j.priority = ? AND j.isolated = ?
                  AND j.limit_key = ? AND j.parked_from IS NOT NULL
                ORDER BY j.parked_from, j.seq LIMIT ?)


-- name: wake
-- Let the next reserve look at the parked jobs of these keys. :keys is [[queue, key], ...]. Index: the primary key.
UPDATE holdfast_limit_keys SET wake_at = 0
 WHERE space = :space AND parked
   AND (queue, key) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:keys))
