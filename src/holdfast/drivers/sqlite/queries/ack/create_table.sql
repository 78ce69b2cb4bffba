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
