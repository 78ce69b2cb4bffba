-- What a batch of ended leases becomes; applied by a few statements over the whole of it. In memory, and private to
-- the writing connection.
CREATE TEMP TABLE holdfast_settling (
  item          INTEGER PRIMARY KEY,  -- the place in the caller's batch
  job           INTEGER NOT NULL,
  queue         TEXT    NOT NULL,
  domain        TEXT,
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
  error         TEXT    NOT NULL DEFAULT ''
)
