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
