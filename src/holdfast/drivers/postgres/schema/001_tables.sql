-- The whole store: what waits and runs is hot and narrow (jobs), what has ended is kept apart (ended).
-- Instants are integer microseconds; NULL run_at means at once. Space leads every key. Texts that are compared are
-- ordered by their bytes (COLLATE "C"), as every other driver orders them.

-- Fences and registry versions. CACHE 1: with more, a session could hand out a smaller number after a larger one.
CREATE SEQUENCE counter CACHE 1;

-- How far the ledger of a space has been trimmed.
CREATE TABLE spaces (
  space        text   COLLATE "C" PRIMARY KEY,
  trimmed_xid  xid8   NOT NULL,
  trimmed_seq  bigint NOT NULL
);

-- seq is the order of arrival. check_at is when the reaper looks at a lease: set with it, and left alone by heartbeats,
-- which then change no indexed column (a HOT update); the reaper moves it on when it finds that the lease was extended.
CREATE TABLE jobs (
  seq               bigint  GENERATED ALWAYS AS IDENTITY,
  available_at      bigint  NOT NULL,
  enqueued_at       bigint  NOT NULL,
  created_at        bigint  NOT NULL,
  run_at            bigint,
  requested_run_at  bigint,
  timeout           bigint  CHECK (timeout > 0),
  failed_at         bigint,
  released_for      bigint  NOT NULL DEFAULT 0 CHECK (released_for >= 0),
  "offset"          bigint,
  fence             bigint,
  expires_at        bigint,
  check_at          bigint,
  reserved_at       bigint,
  started_at        bigint,
  attempts          integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  max_attempts      integer NOT NULL CHECK (max_attempts >= 1),
  crashes           integer NOT NULL DEFAULT 0 CHECK (crashes >= 0),
  max_crashes       integer CHECK (max_crashes >= 1),
  priority          integer NOT NULL CHECK (priority BETWEEN 0 AND 9),
  turn              boolean NOT NULL DEFAULT true,
  cancel_requested  boolean NOT NULL DEFAULT false,
  noted             boolean NOT NULL DEFAULT false,
  space             text    COLLATE "C" NOT NULL,
  id                text    COLLATE "C" NOT NULL,
  queue             text    COLLATE "C" NOT NULL,
  type              text    COLLATE "C" NOT NULL,
  state             text    COLLATE "C" NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'inflight')),
  token             text    COLLATE "C",
  last_verb         text    COLLATE "C",
  last_token        text    COLLATE "C",
  worker            text    NOT NULL DEFAULT '',
  idempotency_key   text    COLLATE "C",
  domain            text    COLLATE "C",
  name              text,
  webhook           text,
  signature         text,
  last_error        text    NOT NULL DEFAULT '',
  meta              bytea,
  payload           bytea   NOT NULL,
  PRIMARY KEY (space, id),
  CONSTRAINT lease_is_whole        CHECK ((token IS NULL) = (expires_at IS NULL)
                                      AND (token IS NULL) = (fence IS NULL)
                                      AND (token IS NULL) = (check_at IS NULL)
                                      AND (token IS NULL) = (reserved_at IS NULL)),
  CONSTRAINT inflight_has_a_lease  CHECK ((state = 'inflight') = (token IS NOT NULL)),
  CONSTRAINT inflight_has_a_turn   CHECK (state = 'ready' OR turn)
) WITH (
  fillfactor = 80,                          -- room for heartbeats beside their row
  autovacuum_vacuum_scale_factor = 0.02,    -- every job dies here twice: as it is leased and as it ends
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.5,
  autovacuum_vacuum_cost_delay = 0
);

-- The hot index: a lane is (space, queue, type, priority), and its due head is the first entry.
CREATE INDEX jobs_lane ON jobs (space, queue, type, priority, available_at, seq) WHERE state = 'ready' AND turn;

CREATE INDEX jobs_leased ON jobs (space, queue, check_at) WHERE state = 'inflight';

-- Who has the turn stands before those who wait for it.
CREATE INDEX jobs_domain ON jobs (space, queue, domain, turn DESC, seq) WHERE domain IS NOT NULL;

-- Domains in which a job has arrived; reserve gives turns. So enqueue locks no domain, and a caller's transaction that
-- enqueues and then stays open holds up nobody.
CREATE TABLE arrivals (
  space   text COLLATE "C" NOT NULL,
  queue   text COLLATE "C" NOT NULL,
  domain  text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX arrivals_queue ON arrivals (space, queue);

CREATE TABLE ended (
  seq               bigint  NOT NULL,
  available_at      bigint  NOT NULL,
  enqueued_at       bigint  NOT NULL,
  ended_at          bigint  NOT NULL,
  created_at        bigint  NOT NULL,
  run_at            bigint,
  requested_run_at  bigint,
  timeout           bigint,
  failed_at         bigint,
  dead_at           bigint,
  "offset"          bigint,
  attempts          integer NOT NULL CHECK (attempts >= 0),
  max_attempts      integer NOT NULL CHECK (max_attempts >= 1),
  crashes           integer NOT NULL,
  max_crashes       integer,
  priority          integer NOT NULL,
  cancel_requested  boolean NOT NULL,
  noted             boolean NOT NULL,
  space             text    COLLATE "C" NOT NULL,
  id                text    COLLATE "C" NOT NULL,
  queue             text    COLLATE "C" NOT NULL,
  type              text    COLLATE "C" NOT NULL,
  state             text    COLLATE "C" NOT NULL CHECK (state IN ('done', 'dead', 'cancelled')),
  last_verb         text    COLLATE "C",
  last_token        text    COLLATE "C",
  idempotency_key   text    COLLATE "C",
  domain            text    COLLATE "C",
  name              text,
  webhook           text,
  signature         text,
  last_error        text    NOT NULL,
  dead_reason       text,
  meta              bytea,
  result            bytea,
  payload           bytea   NOT NULL,
  PRIMARY KEY (space, id),
  CONSTRAINT dead_says_why_and_when CHECK ((state = 'dead') = (dead_at IS NOT NULL)
                                       AND (state = 'dead') = (dead_reason IS NOT NULL))
) WITH (autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ended_trim ON ended (space, ended_at) WHERE state <> 'dead';
CREATE INDEX ended_few ON ended (space, state, id) WHERE state <> 'done';

-- Read in the order (xid, seq) below the oldest running transaction: what commits late is still in front of the reader.
CREATE SEQUENCE ledger_seq CACHE 1;

CREATE TABLE ledger (
  xid           xid8    NOT NULL DEFAULT pg_current_xact_id(),
  seq           bigint  NOT NULL DEFAULT nextval('ledger_seq'),
  enqueued_at   bigint  NOT NULL,
  available_at  bigint  NOT NULL,
  reserved_at   bigint,
  started_at    bigint,
  ended_at      bigint  NOT NULL,
  fence         bigint,
  "offset"      bigint,
  attempt       integer NOT NULL,
  space         text    COLLATE "C" NOT NULL,
  job_id        text    COLLATE "C" NOT NULL,
  type          text    NOT NULL,
  queue         text    NOT NULL,
  domain        text,
  worker        text    NOT NULL,
  ending        text    NOT NULL CHECK (ending IN ('acked', 'retried', 'failed', 'released', 'expired',
                                                   'cancelled', 'requeued', 'purged')),
  state         text,
  detail        text    NOT NULL,
  error         text    NOT NULL,
  PRIMARY KEY (space, xid, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0);

-- An idempotency key outlives its job's row: the mapping has a table of its own.
CREATE TABLE dedupe (
  until   bigint NOT NULL,
  space   text   COLLATE "C" NOT NULL,
  queue   text   COLLATE "C" NOT NULL,
  key     text   COLLATE "C" NOT NULL,
  job_id  text   COLLATE "C" NOT NULL,
  digest  bytea  NOT NULL,
  PRIMARY KEY (space, queue, key)
);

CREATE INDEX dedupe_until ON dedupe (space, until);

-- type '' is the whole queue. level is what was left of the rate limit at an instant; NULL is a full bucket.
CREATE TABLE settings (
  space          text    COLLATE "C" NOT NULL,
  queue          text    COLLATE "C" NOT NULL,
  type           text    COLLATE "C" NOT NULL DEFAULT '',
  paused_until   bigint,
  max_inflight   integer CHECK (max_inflight >= 1),
  rate           double precision CHECK (rate > 0),
  burst          integer CHECK (burst >= 1),
  on_exhausted   text    NOT NULL,
  dedupe_window  bigint  NOT NULL,
  level          bigint,
  level_at       bigint,
  CONSTRAINT bucket_is_whole CHECK ((level IS NULL) = (level_at IS NULL)),
  PRIMARY KEY (space, queue, type)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE registry (
  version     bigint NOT NULL,
  expires_at  bigint,
  space       text   COLLATE "C" NOT NULL,
  kind        text   COLLATE "C" NOT NULL,
  key         text   COLLATE "C" NOT NULL,
  value       bytea  NOT NULL,
  PRIMARY KEY (space, kind, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX registry_expiry ON registry (space, expires_at) WHERE expires_at IS NOT NULL;

-- What running attempts leave behind: kept apart, because most jobs leave nothing. jobs.noted says whether to look.
CREATE TABLE notes (
  space       text  COLLATE "C" NOT NULL,
  job_id      text  COLLATE "C" NOT NULL,
  progress    bytea,
  checkpoint  bytea,
  PRIMARY KEY (space, job_id)
) WITH (fillfactor = 70);
