-- Store new jobs, their keys and their large payloads.

-- name: dedupe_windows
-- How long each queue remembers keys; queues without settings use the default. Index: the primary key.
SELECT queue, dedupe_window FROM holdfast_settings WHERE space = ? AND type = ''


-- name: find_dead
-- The dead jobs that ended before an instant and have one of these idempotency keys (L12). :keys is [[queue, key], ...].
-- Index: the primary key of holdfast_dedupe, holdfast_ended_id.
SELECT e.id
  FROM json_each(:keys) AS given
 CROSS JOIN holdfast_dedupe AS d
    ON d.space = :space AND d.queue = json_extract(given.value, '$[0]') AND d.key = json_extract(given.value, '$[1]')
 CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = d.job_id
 WHERE e.state = 'dead' AND e.ended_at < :before


-- name: find_id
-- The job with this id, in any state, with the payload to compare: find_ids for one job.
-- Index: holdfast_jobs_id and holdfast_ended_id, one probe each.
SELECT j.id, {payload} FROM holdfast_jobs AS j WHERE j.space = :space AND j.id = :id
UNION ALL
SELECT e.id, {payload} FROM holdfast_ended AS e WHERE e.space = :space AND e.id = :id


-- name: find_ids
-- Which of these ids exist, in any state, with the payload to compare. :ids is a JSON list.
-- Index: holdfast_jobs_id and holdfast_ended_id, one probe each per id.
SELECT j.id, {payload}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
UNION ALL
SELECT e.id, {payload}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value


-- name: find_keys
-- Which of these idempotency keys are taken: their window has not ended, or their job is open, or ready (L12).
-- :keys is [[queue, key], ...]. Index: the primary key of holdfast_dedupe, holdfast_jobs_id.
SELECT d.queue, d.key, d.job_id, d.digest
  FROM json_each(:keys) AS given
 CROSS JOIN holdfast_dedupe AS d
    ON d.space = :space AND d.queue = json_extract(given.value, '$[0]') AND d.key = json_extract(given.value, '$[1]')
 WHERE d.until > :now
    OR EXISTS (SELECT 1 FROM holdfast_jobs AS j
                WHERE j.space = d.space AND j.id = d.job_id AND (j.state = 'ready' OR NOT d.while_queued))


-- name: find_offsets
-- Which of these offsets are known: open jobs first, then offsets that have ended, with their last job while its row is
-- kept. :offsets is [[queue, domain, offset], ...]. Index: holdfast_jobs_domain, the primary key of
-- holdfast_ended_offsets, holdfast_ended_offset; a few probes per offset.
WITH given (queue, domain, place) AS MATERIALIZED (
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(:offsets)
)
SELECT given.queue, given.domain, given.place, j.id, {payload}, 0 AS past
  FROM given
 CROSS JOIN holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
    ON j.space = :space AND j.queue = given.queue AND j.domain = given.domain AND j."offset" = given.place
UNION ALL
SELECT given.queue, given.domain, given.place, e.id, {payload}, 1
  FROM given
 CROSS JOIN holdfast_ended_offsets AS r
    ON r.space = :space AND r.queue = given.queue AND r.domain = given.domain
   AND r.first = (SELECT max(p.first) FROM holdfast_ended_offsets AS p
                   WHERE p.space = :space AND p.queue = given.queue AND p.domain = given.domain
                     AND p.first <= given.place)
   AND r.last >= given.place
  LEFT JOIN holdfast_ended AS e
    ON e.seq = (SELECT max(n.seq) FROM holdfast_ended AS n INDEXED BY holdfast_ended_offset
                 WHERE n.space = :space AND n.queue = given.queue AND n.domain = given.domain
                   AND n."offset" = given.place)


-- name: free_keys
-- Free those of these idempotency keys that belong to jobs which were removed. :keys is [[queue, key], ...], :ids a list.
-- Index: the primary key of holdfast_dedupe.
DELETE FROM holdfast_dedupe
 WHERE (space, queue, key) IN (SELECT :space, json_extract(value, '$[0]'), json_extract(value, '$[1]')
                                 FROM json_each(:keys))
   AND job_id IN (SELECT value FROM json_each(:ids))


-- name: insert
-- Insert a new job. A job of a domain has turn = 0 until domains/give_turn, which runs right after.
INSERT INTO holdfast_jobs (space, turn, available_at, enqueued_at, {insert_columns})
VALUES (?, ?, ?, ?, {insert_values})


-- name: insert_leased
-- Insert a new job that is in flight and counts as prefetched; its first attempt is counted. Never for a job that must
-- wait first.
INSERT INTO holdfast_jobs (fence, token, expires_at, reserved_at, worker, state, prefetched,
                           space, turn, available_at, enqueued_at, {insert_columns})
VALUES (?, ?, ?, ?, ?, 'inflight', 1, ?, ?, ?, ?, {insert_values})


-- name: insert_payload
-- Store a large payload; the row of its job names it.
INSERT INTO holdfast_payloads (space, payload) VALUES (?, ?)


-- name: insert_plain
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


-- name: open_lane
-- Record that a lane has had a job. Index: the primary key.
INSERT OR IGNORE INTO holdfast_lanes (space, queue, type, priority) VALUES (?, ?, ?, ?)


-- name: remember_key
-- Map an idempotency key to a job. An older mapping is no longer valid: enqueue/find_keys would have found it.
-- Index: the primary key.
INSERT INTO holdfast_dedupe (space, queue, key, job_id, digest, until, while_queued) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE
   SET job_id = excluded.job_id, digest = excluded.digest, until = excluded.until, while_queued = excluded.while_queued
