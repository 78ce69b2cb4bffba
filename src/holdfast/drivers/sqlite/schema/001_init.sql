-- All tables of the store. holdfast_jobs has the jobs that are ready or in flight, and stays small; holdfast_ended has
-- the jobs that have ended. Instants are integer microseconds; a NULL run_at means at once. Every key begins with the
-- space.

-- One row per space: its counter for fences and registry versions, the latest instant at which a lease was granted, and
-- the number of the last ledger row that was trimmed.
CREATE TABLE holdfast_spaces (
  space           TEXT    NOT NULL PRIMARY KEY,
  counter         INTEGER NOT NULL DEFAULT 0,
  clock           INTEGER NOT NULL DEFAULT 0,
  ledger_trimmed  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- seq is the order of arrival. AUTOINCREMENT: a number must not be used again after its row was deleted.
CREATE TABLE holdfast_jobs (
  seq               INTEGER PRIMARY KEY AUTOINCREMENT,
  space             TEXT    NOT NULL,
  id                TEXT    NOT NULL,
  queue             TEXT    NOT NULL,
  type              TEXT    NOT NULL,
  priority          INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  state             TEXT    NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'inflight')),
  turn              INTEGER NOT NULL DEFAULT 1 CHECK (turn IN (0, 1)),
  available_at      INTEGER NOT NULL,
  enqueued_at       INTEGER NOT NULL,
  run_at            INTEGER,
  attempts          INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  max_attempts      INTEGER NOT NULL CHECK (max_attempts >= 1),
  crashes           INTEGER NOT NULL DEFAULT 0 CHECK (crashes >= 0),
  max_crashes       INTEGER CHECK (max_crashes >= 1),
  released_for      INTEGER NOT NULL DEFAULT 0 CHECK (released_for >= 0),
  cancel_requested  INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
  noted             INTEGER NOT NULL DEFAULT 0 CHECK (noted IN (0, 1)),
  token             TEXT,
  fence             INTEGER,
  expires_at        INTEGER,
  reserved_at       INTEGER,
  started_at        INTEGER,
  worker            TEXT    NOT NULL DEFAULT '',
  last_verb         TEXT,
  last_token        TEXT,
  created_at        INTEGER NOT NULL,
  requested_run_at  INTEGER,
  timeout           INTEGER CHECK (timeout > 0),
  idempotency_key   TEXT,
  domain            TEXT,
  "offset"          INTEGER,
  name              TEXT,
  meta              BLOB,
  webhook           TEXT,
  signature         TEXT,
  last_error        TEXT    NOT NULL DEFAULT '',
  failed_at         INTEGER,
  payload           BLOB    NOT NULL,
  CONSTRAINT lease_is_whole        CHECK ((token IS NULL) = (expires_at IS NULL)
                                      AND (token IS NULL) = (fence IS NULL)
                                      AND (token IS NULL) = (reserved_at IS NULL)),
  CONSTRAINT inflight_has_a_lease  CHECK ((state = 'inflight') = (token IS NOT NULL)),
  CONSTRAINT inflight_has_a_turn   CHECK (state = 'ready' OR turn = 1)
) STRICT;

CREATE UNIQUE INDEX holdfast_jobs_id ON holdfast_jobs (space, id);

-- The index of reserve: a lane is (space, queue, type, priority), and its first due job is the first entry.
CREATE INDEX holdfast_jobs_lane ON holdfast_jobs (space, queue, type, priority, available_at, seq)
  WHERE state = 'ready' AND turn = 1;

CREATE INDEX holdfast_jobs_leased ON holdfast_jobs (space, queue, expires_at, seq, type)
  WHERE state = 'inflight';

CREATE INDEX holdfast_jobs_domain ON holdfast_jobs (space, queue, domain, seq)
  WHERE domain IS NOT NULL;

-- The lanes that have ever had a job: reserve probes each of them instead of searching all ready jobs for types.
CREATE TABLE holdfast_lanes (
  space     TEXT    NOT NULL,
  queue     TEXT    NOT NULL,
  type      TEXT    NOT NULL,
  priority  INTEGER NOT NULL,
  PRIMARY KEY (space, queue, type, priority)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_ended (
  seq               INTEGER PRIMARY KEY,
  space             TEXT    NOT NULL,
  id                TEXT    NOT NULL,
  queue             TEXT    NOT NULL,
  type              TEXT    NOT NULL,
  priority          INTEGER NOT NULL,
  state             TEXT    NOT NULL CHECK (state IN ('done', 'dead', 'cancelled')),
  available_at      INTEGER NOT NULL,
  enqueued_at       INTEGER NOT NULL,
  ended_at          INTEGER NOT NULL,
  run_at            INTEGER,
  attempts          INTEGER NOT NULL CHECK (attempts >= 0),
  max_attempts      INTEGER NOT NULL CHECK (max_attempts >= 1),
  crashes           INTEGER NOT NULL,
  max_crashes       INTEGER,
  cancel_requested  INTEGER NOT NULL,
  noted             INTEGER NOT NULL,
  last_verb         TEXT,
  last_token        TEXT,
  created_at        INTEGER NOT NULL,
  requested_run_at  INTEGER,
  timeout           INTEGER,
  idempotency_key   TEXT,
  domain            TEXT,
  "offset"          INTEGER,
  name              TEXT,
  meta              BLOB,
  webhook           TEXT,
  signature         TEXT,
  last_error        TEXT    NOT NULL,
  failed_at         INTEGER,
  dead_reason       TEXT,
  dead_at           INTEGER,
  result            BLOB,
  payload           BLOB    NOT NULL,
  CONSTRAINT dead_says_why_and_when CHECK ((state = 'dead') = (dead_at IS NOT NULL)
                                       AND (state = 'dead') = (dead_reason IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX holdfast_ended_id ON holdfast_ended (space, id);
CREATE INDEX holdfast_ended_when ON holdfast_ended (space, state, ended_at);

-- seq grows within a space in the order of commits. There is one writer at a time, so a reader cannot miss a row.
CREATE TABLE holdfast_ledger (
  space         TEXT    NOT NULL,
  seq           INTEGER NOT NULL,
  job_id        TEXT    NOT NULL,
  type          TEXT    NOT NULL,
  queue         TEXT    NOT NULL,
  domain        TEXT,
  "offset"      INTEGER,
  attempt       INTEGER NOT NULL,
  fence         INTEGER,
  worker        TEXT    NOT NULL,
  enqueued_at   INTEGER NOT NULL,
  available_at  INTEGER NOT NULL,
  reserved_at   INTEGER,
  started_at    INTEGER,
  ended_at      INTEGER NOT NULL,
  ending        TEXT    NOT NULL CHECK (ending IN ('acked', 'retried', 'failed', 'released', 'expired',
                                                   'cancelled', 'requeued', 'purged')),
  state         TEXT,
  detail        TEXT    NOT NULL,
  error         TEXT    NOT NULL,
  PRIMARY KEY (space, seq)
) STRICT, WITHOUT ROWID;

-- Idempotency keys have their own table, because a key may stay longer than the row of its job.
CREATE TABLE holdfast_dedupe (
  space   TEXT    NOT NULL,
  queue   TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  job_id  TEXT    NOT NULL,
  digest  BLOB    NOT NULL,
  until   INTEGER NOT NULL,
  PRIMARY KEY (space, queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX holdfast_dedupe_until ON holdfast_dedupe (space, until);

-- type '' means the whole queue. level is what was left of the rate limit at level_at; NULL means that it is unused.
CREATE TABLE holdfast_settings (
  space          TEXT    NOT NULL,
  queue          TEXT    NOT NULL,
  type           TEXT    NOT NULL DEFAULT '',
  paused_until   INTEGER,
  max_inflight   INTEGER CHECK (max_inflight >= 1),
  rate           REAL    CHECK (rate > 0),
  burst          INTEGER CHECK (burst >= 1),
  on_exhausted   TEXT    NOT NULL,
  dedupe_window  INTEGER NOT NULL,
  level          INTEGER,
  level_at       INTEGER,
  CONSTRAINT bucket_is_whole CHECK ((level IS NULL) = (level_at IS NULL)),
  PRIMARY KEY (space, queue, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_registry (
  space       TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  value       BLOB    NOT NULL,
  version     INTEGER NOT NULL,
  expires_at  INTEGER,
  PRIMARY KEY (space, kind, key)
) STRICT;

CREATE INDEX holdfast_registry_expiry ON holdfast_registry (space, expires_at) WHERE expires_at IS NOT NULL;

-- What running attempts report. A separate table, because most jobs report nothing; jobs.noted tells whether there is a
-- row.
CREATE TABLE holdfast_notes (
  space       TEXT NOT NULL,
  job_id      TEXT NOT NULL,
  progress    BLOB,
  checkpoint  BLOB,
  PRIMARY KEY (space, job_id)
) STRICT;
