-- Limits by a key of the job. A job that is due while its key allows no more jobs is parked: parked_from has its
-- available_at, and available_at is the last instant, so that no lane and no wait reads the job again.
ALTER TABLE jobs
  ADD COLUMN limit_key    text COLLATE "C",
  ADD COLUMN parked_from  bigint,
  ADD CONSTRAINT parked_is_ready CHECK (parked_from IS NULL OR (state = 'ready' AND limit_key IS NOT NULL));
ALTER TABLE ended ADD COLUMN limit_key text COLLATE "C";

-- The limits of each key of a queue. `keyed` is true if the queue has such limits, or had them and limit_keys has rows
-- of it: reserve reads keys only then. A hold makes the row of a queue that has none, so the columns get defaults.
ALTER TABLE settings
  ADD COLUMN key_max_inflight  integer CHECK (key_max_inflight >= 1),
  ADD COLUMN key_rate          double precision CHECK (key_rate > 0),
  ADD COLUMN key_burst         integer CHECK (key_burst >= 1),
  ADD COLUMN keyed             boolean NOT NULL DEFAULT false,
  ALTER COLUMN on_exhausted SET DEFAULT 'skip',
  ALTER COLUMN dedupe_window SET DEFAULT 86400000000;

-- Keys that have parked jobs, are held, or have used their rate. Only reserve changes a row, and it has locked the
-- settings of the queue. `parked` is true if the key may have parked jobs. `watched` is true once every transaction that
-- ends a lease of the key sees that (unpark_jobs.sql). At wake_at the key is judged again; NULL: when a lease ends. After
-- idle_at a key without parked jobs can be forgotten. `level` and `level_at` are as in settings.
CREATE TABLE limit_keys (
  level       bigint,
  level_at    bigint,
  held_until  bigint,
  wake_at     bigint,
  idle_at     bigint  NOT NULL DEFAULT 0,
  parked      boolean NOT NULL DEFAULT false,
  watched     boolean NOT NULL DEFAULT false,
  space       text    COLLATE "C" NOT NULL,
  queue       text    COLLATE "C" NOT NULL,
  key         text    COLLATE "C" NOT NULL,
  CONSTRAINT bucket_is_whole CHECK ((level IS NULL) = (level_at IS NULL)),
  PRIMARY KEY (space, queue, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX limit_keys_wake ON limit_keys (space, queue, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX limit_keys_idle ON limit_keys (space, idle_at) WHERE NOT parked;

-- Keys that may allow more jobs since the last reserve, because a lease ended, and keys that a settlement holds. Only
-- inserted here, and judged by reserve: so whoever ends a lease locks no key.
CREATE TABLE key_changes (
  held_until  bigint,
  space       text COLLATE "C" NOT NULL,
  queue       text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX key_changes_queue ON key_changes (space, queue);

-- The jobs of a key: in flight, ready in a lane, and parked. Jobs without a limit key are in none of these. The conditions
-- name the token and not the state: so the planner cannot use jobs_leased and jobs_lane instead, which on an empty table
-- seem as good.
CREATE INDEX jobs_key_leased ON jobs (space, queue, limit_key) WHERE token IS NOT NULL AND limit_key IS NOT NULL;
CREATE INDEX jobs_key_ready ON jobs (space, queue, limit_key, type, isolated, priority, available_at, seq)
  WHERE token IS NULL AND turn AND limit_key IS NOT NULL AND parked_from IS NULL;
CREATE INDEX jobs_parked ON jobs (space, queue, limit_key, type, isolated, priority DESC, parked_from, seq)
  WHERE parked_from IS NOT NULL;
