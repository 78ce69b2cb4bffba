-- The valid acks of a batch, by far the most common ending: narrow, because an ack changes little. In memory, and
-- private to the writing connection.
CREATE TEMP TABLE holdfast_acking (
  item        INTEGER PRIMARY KEY,  -- the place in the caller's batch, from 1
  job         INTEGER NOT NULL,
  queue       TEXT    NOT NULL,
  domain      TEXT,
  started_at  INTEGER,
  result      BLOB,
  detail      TEXT    NOT NULL DEFAULT ''
)
