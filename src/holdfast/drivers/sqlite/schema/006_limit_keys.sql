-- Limits by a key of the job. limit_key is the key. key_* of the settings are the limits of each key of the queue; keyed
-- says that reserve must look at keys: the queue has such limits, or rows in holdfast_limit_keys.
--
-- A job whose key has no place is parked, so that reserve does not read it again and again: its available_at is the
-- last instant there is, and parked_from is the available_at that it gets back.
ALTER TABLE holdfast_jobs ADD COLUMN limit_key TEXT;
ALTER TABLE holdfast_jobs ADD COLUMN parked_from INTEGER;
ALTER TABLE holdfast_ended ADD COLUMN limit_key TEXT;
ALTER TABLE holdfast_settings ADD COLUMN key_max_inflight INTEGER CHECK (key_max_inflight >= 1);
ALTER TABLE holdfast_settings ADD COLUMN key_rate REAL CHECK (key_rate > 0);
ALTER TABLE holdfast_settings ADD COLUMN key_burst INTEGER CHECK (key_burst >= 1);
ALTER TABLE holdfast_settings ADD COLUMN keyed INTEGER NOT NULL DEFAULT 0 CHECK (keyed IN (0, 1));

-- The keys that have parked jobs, have used their rate, or are held. level is what was left of the rate at level_at; NULL
-- means that it is unused. No job of the key is reserved before held_until. wake_at: reserve must look at the parked jobs
-- of the key from this instant on; NULL if the end of a lease of the key decides about them.
CREATE TABLE holdfast_limit_keys (
  space       TEXT    NOT NULL,
  queue       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  level       INTEGER,
  level_at    INTEGER,
  held_until  INTEGER,
  wake_at     INTEGER,
  parked      INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
  CONSTRAINT bucket_is_whole       CHECK ((level IS NULL) = (level_at IS NULL)),
  CONSTRAINT only_parked_jobs_wake CHECK (parked OR wake_at IS NULL),
  PRIMARY KEY (space, queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX holdfast_limit_keys_wake ON holdfast_limit_keys (space, queue, wake_at) WHERE wake_at IS NOT NULL;

-- The jobs of a key: those in flight, those that stand in lanes, and those that are parked.
CREATE INDEX holdfast_jobs_key_leased ON holdfast_jobs (space, queue, limit_key)
  WHERE state = 'inflight' AND limit_key IS NOT NULL;
CREATE INDEX holdfast_jobs_key_ready ON holdfast_jobs (space, queue, limit_key, available_at)
  WHERE state = 'ready' AND turn = 1 AND limit_key IS NOT NULL AND parked_from IS NULL;
CREATE INDEX holdfast_jobs_parked ON holdfast_jobs (space, queue, limit_key, type, priority, isolated, parked_from, seq)
  WHERE parked_from IS NOT NULL;
