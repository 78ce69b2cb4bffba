-- Domains in order of offsets, halted domains and gaps (law L11). A domain without any of these has no row here. Rows are
-- changed only by the holder of the lock of their domain (lock_domains).
--
-- `start` is where a domain with gaps 'wait' begins, or was told to go on. halted_by is the dead job that halted the
-- domain. waits_for is the missing offset of a domain that has jobs and cannot run one; the gap is passed at pass_at.
CREATE TABLE domains (
  start          bigint NOT NULL DEFAULT 0 CHECK (start >= 0),
  halted_at      bigint,
  waits_for      bigint,
  waiting_since  bigint,
  pass_at        bigint,
  space          text   COLLATE "C" NOT NULL,
  queue          text   COLLATE "C" NOT NULL,
  domain         text   COLLATE "C" NOT NULL,
  halted_by      text   COLLATE "C",
  CONSTRAINT halt_is_whole CHECK ((halted_by IS NULL) = (halted_at IS NULL)),
  CONSTRAINT gap_is_whole  CHECK ((waits_for IS NULL) = (waiting_since IS NULL) AND (waits_for IS NOT NULL OR pass_at IS NULL)),
  PRIMARY KEY (space, queue, domain)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX domains_pass ON domains (space, queue, pass_at) WHERE pass_at IS NOT NULL;
-- halted_by is in the order of list_domains, so that the planner does not read the primary key instead.
CREATE INDEX domains_halted ON domains (space, queue, domain, halted_by) WHERE halted_by IS NOT NULL;

-- The offsets that have ended, as ranges: disjoint, with at least one offset between two of them. They outlive their jobs.
-- In order, an ending changes `last` of one range: a HOT update.
CREATE TABLE ended_offsets (
  first   bigint NOT NULL,
  last    bigint NOT NULL,
  space   text   COLLATE "C" NOT NULL,
  queue   text   COLLATE "C" NOT NULL,
  domain  text   COLLATE "C" NOT NULL,
  CONSTRAINT range_has_an_offset CHECK (first BETWEEN 0 AND last),
  PRIMARY KEY (space, queue, domain, first)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

-- The jobs of a domain in their order: by offset, then those without one by arrival (NULLs sort last).
DROP INDEX jobs_domain;
CREATE INDEX jobs_domain ON jobs (space, queue, domain, "offset", seq) WHERE domain IS NOT NULL;

-- An offset is open once, and one job of a domain has the turn.
CREATE UNIQUE INDEX jobs_offset ON jobs (space, queue, domain, "offset") WHERE "offset" IS NOT NULL;
CREATE UNIQUE INDEX jobs_turn ON jobs (space, queue, domain) WHERE domain IS NOT NULL AND turn;

-- The job of an offset that has ended, while its row is kept.
CREATE INDEX ended_offset ON ended (space, queue, domain, "offset", seq) WHERE "offset" IS NOT NULL;

-- What a domain of the queue does when an offset is missing.
ALTER TABLE settings
  ADD COLUMN gaps              text NOT NULL DEFAULT 'pass' CHECK (gaps IN ('pass', 'wait')),
  ADD COLUMN gap_report_after  bigint CHECK (gap_report_after > 0),
  ADD COLUMN gap_pass_after    bigint CHECK (gap_pass_after > 0);
