-- Acknowledge many plain jobs at once: one batch of tokens in, deletes and inserts by set (ADR 0007).

-- name: any_special_domain
-- Whether the first job of a domain of an acked job may have to wait: the domain is halted, waits for an offset, does not
-- begin at offset 0 (it has a row), or its queue waits for missing offsets. Index: the primary keys.
SELECT EXISTS (
  SELECT 1 FROM holdfast_acking AS a
   WHERE a.domain IS NOT NULL
     AND (EXISTS (SELECT 1 FROM holdfast_domains AS d
                   WHERE d.space = :space AND d.queue = a.queue AND d.domain = a.domain)
       OR EXISTS (SELECT 1 FROM holdfast_settings AS s
                   WHERE s.space = :space AND s.queue = a.queue AND s.type = '' AND s.gaps = 'wait')))


-- name: clear
-- Empty the table for the next batch. SQLite truncates it without visiting rows.
DELETE FROM holdfast_acking


-- name: count_followers
-- How many of the acked jobs have a domain, an offset, a limit key.
SELECT count(domain), count("offset"), count(limit_key) FROM holdfast_acking


-- name: create_table
-- The valid acks of a batch. Acks are by far the most common settlement and change little, so this table is narrow.
-- It is in memory and private to the writing connection.
CREATE TEMP TABLE holdfast_acking (
  item        INTEGER PRIMARY KEY,  -- the position in the caller's batch, from 1
  job         INTEGER NOT NULL,
  queue       TEXT    NOT NULL,
  domain      TEXT,
  "offset"    INTEGER,
  limit_key   TEXT,
  started_at  INTEGER,
  result      BLOB,
  detail      TEXT    NOT NULL DEFAULT ''
)


-- name: delete_jobs
-- Delete the acked jobs that insert_ended has copied. Index: the primary key.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT job FROM holdfast_acking)


-- name: domains
-- The acked jobs that have a domain.
SELECT queue, domain, "offset" FROM holdfast_acking WHERE domain IS NOT NULL


-- name: end_offsets
-- Add the offsets of the acked jobs to the ended offsets of their domains: an offset behind a range extends it, another
-- one is a range of its own. An offset in front of a range is left out: the two become one row. A domain has at most one
-- job in flight, so no two acks of a batch have the same domain. Index: the primary key, a few probes per job.
INSERT INTO holdfast_ended_offsets (space, queue, domain, first, last)
SELECT :space, a.queue, a.domain,
       coalesce((SELECT CASE WHEN r.last >= a."offset" - 1 THEN r.first END FROM holdfast_ended_offsets AS r
                  WHERE r.space = :space AND r.queue = a.queue AND r.domain = a.domain AND r.first <= a."offset"
                  ORDER BY r.first DESC LIMIT 1), a."offset"),
       a."offset"
  FROM holdfast_acking AS a
 WHERE a."offset" IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast_ended_offsets AS r
                    WHERE r.space = :space AND r.queue = a.queue AND r.domain = a.domain AND r.first = a."offset" + 1)
ON CONFLICT (space, queue, domain, first) DO UPDATE SET last = max(last, excluded.last)


-- name: give_turns
-- Give the turn to the first job of each domain of an acked job (L11); see any_special_domain. Two probes for the
-- first job: see domains/heads. Index: holdfast_jobs_domain, the primary key.
UPDATE holdfast_jobs SET turn = 1
 WHERE seq IN (
   SELECT coalesce(
          (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
            WHERE j.space = :space AND j.queue = a.queue AND j.domain = a.domain AND j."offset" IS NOT NULL
            ORDER BY j."offset", j.seq LIMIT 1),
          (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
            WHERE j.space = :space AND j.queue = a.queue AND j.domain = a.domain AND j."offset" IS NULL
            ORDER BY j.seq LIMIT 1))
     FROM holdfast_acking AS a
    WHERE a.domain IS NOT NULL)


-- name: insert_ended
-- Copy acked jobs to the table of ended jobs; payloads are copied inside SQLite. Index: the primary key.
-- OR REPLACE: a job that stands in both tables must not fail the batch that ends it (L5).
INSERT OR REPLACE INTO holdfast_ended
  (seq, space, {fixed_columns}, available_at, enqueued_at, run_at, attempts, crashes, last_error, failed_at,
   cancel_requested, noted, state, ended_at, last_verb, last_token, result)
SELECT j.seq, j.space, {j.fixed_columns}, j.available_at, j.enqueued_at, j.run_at, j.attempts, j.crashes, j.last_error,
       j.failed_at, j.cancel_requested, j.noted, 'done', :now, 'ack', j.token, a.result
  FROM holdfast_acking AS a CROSS JOIN holdfast_jobs AS j ON j.seq = a.job


-- name: insert_ledger
-- Write one ledger row per ack, from the job before it is moved. Index: the primary key of holdfast_jobs.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT j.space, :written + a.item, j.id, j.type, j.queue, j.domain, j."offset", j.attempts, j.fence, j.worker,
       j.enqueued_at, j.available_at, j.reserved_at, coalesce(a.started_at, j.started_at), :now,
       'acked', 'done', a.detail, ''
  FROM holdfast_acking AS a CROSS JOIN holdfast_jobs AS j ON j.seq = a.job


-- name: insert_valid
-- Insert the acks of a batch that are valid: the job is in flight, the token is equal, the lease has not expired (L5).
-- :ids is a JSON list with '' for items that are left to Python. :tokens and :starts are blobs of fields with a fixed
-- width, in the same order: reading a field costs a tenth of a json_extract or of a bound parameter.
-- Index: holdfast_jobs_id.
INSERT INTO holdfast_acking (item, job, queue, domain, "offset", limit_key, started_at)
SELECT given.key + 1, j.seq, j.queue, j.domain, j."offset", j.limit_key,
       nullif(CAST(substr(:starts, given.key * :width + 1, :width) AS INTEGER), 0)
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
 WHERE j.state = 'inflight'
   AND j.token = rtrim(CAST(substr(:tokens, given.key * :width + 1, :width) AS TEXT))
   AND j.expires_at > :now


-- name: items
-- The items of the batch that are valid acks.
SELECT item FROM holdfast_acking


-- name: limit_keys
-- The limit keys of the acked jobs.
SELECT DISTINCT queue, limit_key FROM holdfast_acking WHERE limit_key IS NOT NULL


-- name: remove
-- Leave out an ack whose registry writes are refused.
DELETE FROM holdfast_acking WHERE item = ?


-- name: set_result
-- Store the result and the detail of one ack.
UPDATE holdfast_acking SET result = ?, detail = ? WHERE item = ?
