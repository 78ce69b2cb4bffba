-- End leases: transitions are decided in Python and applied by set.

-- name: clear
-- Empty the table for the next batch. SQLite truncates it without visiting rows.
DELETE FROM holdfast_settling


-- name: create_table
-- The transitions of a batch, decided in Python (model.transition.Transition). The table is in memory and private to
-- the writing connection.
CREATE TEMP TABLE holdfast_settling (
  item          INTEGER PRIMARY KEY,  -- the position in the caller's batch, from 1
  job           INTEGER NOT NULL,
  verb          TEXT    NOT NULL,
  started_at    INTEGER,
  ending        TEXT    NOT NULL,
  state         TEXT    NOT NULL,
  attempts      INTEGER NOT NULL,
  crashes       INTEGER NOT NULL,
  run_at        INTEGER,
  available_at  INTEGER NOT NULL,
  last_error    TEXT    NOT NULL,
  failed_at     INTEGER,
  released_for  INTEGER NOT NULL DEFAULT 0,
  dead_reason   TEXT,
  dead_at       INTEGER,
  result        BLOB,
  detail        TEXT    NOT NULL,
  error         TEXT    NOT NULL DEFAULT '',
  suspect       INTEGER NOT NULL
)


-- name: delete_jobs
-- Delete the ended jobs that insert_ended has copied. Index: the primary key.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT job FROM holdfast_settling WHERE state <> 'ready')


-- name: find_ended
-- Like find_live, for jobs that have ended: they are needed only to recognise a repeated settlement (L6).
-- Index: holdfast_ended_id.
SELECT e.id, e.seq, e.queue, e.domain, e."offset", e.limit_key, {e.ended_held_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value


-- name: find_leased
-- Like find_live, for one job by its seq. Index: the primary key.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns} FROM holdfast_jobs AS j WHERE j.seq = ?


-- name: find_live
-- The stored values that decide about a call with a lease (model.transition.HeldJob), for jobs that have not ended.
-- :ids is a JSON list. Index: holdfast_jobs_id.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value


-- name: insert
-- Insert one transition: item, job, verb, started_at, then the fields of Transition.
INSERT INTO holdfast_settling (item, job, verb, started_at, {transition_columns})
VALUES (?, ?, ?, ?, {transition_values})


-- name: insert_ended
-- Copy jobs that have ended to their table; payloads are copied inside SQLite. Index: the primary key.
-- OR REPLACE: a job that stands in both tables must not fail the batch that ends it (L5).
INSERT OR REPLACE INTO holdfast_ended
  (seq, space, {fixed_columns}, available_at, enqueued_at, run_at, attempts, crashes, last_error, failed_at,
   cancel_requested, noted, state, ended_at, last_verb, last_token, dead_reason, dead_at, result)
SELECT j.seq, j.space, {j.fixed_columns}, s.available_at, j.enqueued_at, s.run_at, s.attempts, s.crashes, s.last_error,
       s.failed_at, j.cancel_requested, j.noted, s.state, :now, s.verb, j.token, s.dead_reason, s.dead_at, s.result
  FROM holdfast_settling AS s CROSS JOIN holdfast_jobs AS j ON j.seq = s.job
 WHERE s.state <> 'ready'


-- name: insert_ledger
-- Write one ledger row per lease that ends, from the job before it changes. Index: the primary key of holdfast_jobs.
-- A ledger counts attempts in 32 bits: min is for rows that somebody else has changed.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT :space, :written + s.item, j.id, j.type, j.queue, j.domain, j."offset", min(j.attempts, 2147483647),
       j.fence, j.worker, j.enqueued_at, j.available_at, j.reserved_at, coalesce(s.started_at, j.started_at), :now,
       s.ending, s.state, s.detail, s.error
  FROM holdfast_settling AS s CROSS JOIN holdfast_jobs AS j ON j.seq = s.job


-- name: replace_id
-- Give a job an id that every verb accepts. Index: the primary key.
UPDATE holdfast_jobs SET id = ? WHERE seq = ?


-- name: update_ready
-- Return jobs to their lanes and remove their leases. last_token stays, to recognise a repeated settlement (L6).
-- Index: the primary key.
UPDATE holdfast_jobs
   SET state = 'ready', attempts = s.attempts, crashes = s.crashes, run_at = s.run_at, available_at = s.available_at,
       released_for = s.released_for, suspect = s.suspect, last_error = s.last_error, failed_at = s.failed_at,
       last_verb = s.verb, last_token = token,
       token = NULL, fence = NULL, expires_at = NULL, reserved_at = NULL, started_at = NULL, worker = '',
       prefetched = 0
  FROM holdfast_settling AS s
 WHERE holdfast_jobs.seq = s.job AND s.state = 'ready'
