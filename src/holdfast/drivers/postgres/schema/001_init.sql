-- The tables, indexes and types of a store. The functions that use them are in functions/, one per file.
--
-- Conventions: instants and durations are integer microseconds. run_at NULL means "at once". `space` is the first
-- column of every key. Compared text has COLLATE "C", because every driver orders text by its bytes. Columns are sorted
-- by width (8 bytes, 4 bytes, 1 byte, variable), which saves alignment padding in every row.

-- Numbers for fences and for registry versions. CACHE 1: with a larger cache a session could return a smaller number
-- after another session returned a larger one.
CREATE SEQUENCE counter CACHE 1;

-- Per space: the position of the last ledger row that retention removed.
CREATE TABLE spaces (
  space        text   COLLATE "C" PRIMARY KEY,
  trimmed_xid  xid8   NOT NULL,
  trimmed_seq  bigint NOT NULL
);

-- Jobs that are ready or in flight. `seq` is the order of arrival. `turn` is true for a job without a domain and for
-- the first job of a domain. `noted` is true if `notes` has a row for the job.
--
-- `check_at` is when the reaper next looks at a lease. Reserve sets it to expires_at; a heartbeat does not move it. So a
-- heartbeat changes no indexed column and is a HOT update. The reaper moves check_at forward when it finds that the
-- lease was extended.
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
  -- Every job is written twice here, when it is enqueued and when it is leased. fillfactor 50 leaves space for the
  -- second index entry; with less, a reserve splits or cleans index pages.
  PRIMARY KEY (space, id) WITH (fillfactor = 50),
  CONSTRAINT lease_is_whole        CHECK ((token IS NULL) = (expires_at IS NULL)
                                      AND (token IS NULL) = (fence IS NULL)
                                      AND (token IS NULL) = (check_at IS NULL)
                                      AND (token IS NULL) = (reserved_at IS NULL)),
  CONSTRAINT inflight_has_a_lease  CHECK ((state = 'inflight') = (token IS NOT NULL)),
  CONSTRAINT inflight_has_a_turn   CHECK (state = 'ready' OR turn)
) WITH (
  fillfactor = 80,                          -- space for heartbeat updates on the same page
  autovacuum_vacuum_scale_factor = 0.02,    -- every job leaves two dead rows: when it is leased and when it ends
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.5,
  autovacuum_vacuum_cost_delay = 0
);

-- The hot index. A lane is (space, queue, type, priority); the first entry of a lane is the job that runs next.
CREATE INDEX jobs_lane ON jobs (space, queue, type, priority, available_at, seq) WHERE state = 'ready' AND turn;

-- The reaper reads leases in the order of check_at.
CREATE INDEX jobs_leased ON jobs (space, queue, check_at) WHERE state = 'inflight';

-- The job that has the turn sorts before the jobs of its domain that wait for it.
CREATE INDEX jobs_domain ON jobs (space, queue, domain, turn DESC, seq) WHERE domain IS NOT NULL;

-- Domains in which a job was enqueued since the last reserve. Enqueue only inserts here and reserve gives the turn. So
-- enqueue locks no domain, and a caller's transaction that enqueues and stays open blocks no other session.
CREATE TABLE arrivals (
  space   text COLLATE "C" NOT NULL,
  queue   text COLLATE "C" NOT NULL,
  domain  text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX arrivals_queue ON arrivals (space, queue);

-- Jobs that are done, dead or cancelled. A separate table keeps `jobs` small.
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

-- Retention removes done and cancelled jobs, oldest first.
CREATE INDEX ended_trim ON ended (space, ended_at) WHERE state <> 'dead';

-- Pages of dead or cancelled jobs, which are few among the done ones.
CREATE INDEX ended_few ON ended (space, state, id) WHERE state <> 'done';

-- One row per ending (law L13). Readers follow (xid, seq) and stop before the oldest running transaction
-- (functions/internal/ledger_horizon.sql): a row that commits late is still ahead of every reader.
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

-- Idempotency keys. A key outlives the row of its job, so the mapping has its own table (law L12).
CREATE TABLE dedupe (
  until   bigint NOT NULL,
  space   text   COLLATE "C" NOT NULL,
  queue   text   COLLATE "C" NOT NULL,
  key     text   COLLATE "C" NOT NULL,
  job_id  text   COLLATE "C" NOT NULL,
  digest  bytea  NOT NULL,
  PRIMARY KEY (space, queue, key)
);

-- Retention removes expired keys. The condition is always true. It keeps the planner from using this index to look up
-- a key: on an empty table this index and the primary key have the same estimated cost.
CREATE INDEX dedupe_expiry ON dedupe (space, until) WHERE until > 0;

-- QueueSettings. type '' is the whole queue. `level` is the level of the rate bucket at `level_at`, in millionths of a
-- job; NULL is a full bucket.
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

-- Progress and checkpoints of running attempts. Most jobs have none; jobs.noted says whether a row exists.
CREATE TABLE notes (
  space       text  COLLATE "C" NOT NULL,
  job_id      text  COLLATE "C" NOT NULL,
  progress    bytea,
  checkpoint  bytea,
  PRIMARY KEY (space, job_id)
) WITH (fillfactor = 70);

-- The change that ends a lease: Transition in model/transition.py, with the row and the batch position it belongs to.
CREATE TYPE transition AS (
  item          integer,
  job_ctid      tid,
  verb          text,
  started_at    bigint,
  ending        text,
  state         text,
  attempts      integer,
  crashes       integer,
  run_at        bigint,
  available_at  bigint,
  last_error    text,
  failed_at     bigint,
  released_for  bigint,
  dead_reason   text,
  dead_at       bigint,
  result        bytea,
  detail        text,
  error         text
);
