-- Ordered domains (L11): explicit offsets, halts, gaps. Only a domain that is halted, waits for an offset, or does not
-- begin at offset 0 has a row in holdfast_domains; only a domain with offsets has rows in holdfast_ended_offsets.
--
-- halted_by: the job that stopped the domain. waits_for: the missing offset for which the domain has waited since
-- waiting_since. start: the domain waits for no missing offset that is smaller. arrived: jobs have arrived that begin or
-- end a wait; the next reserve stores that.
CREATE TABLE holdfast_domains (
  space          TEXT    NOT NULL,
  queue          TEXT    NOT NULL,
  domain         TEXT    NOT NULL,
  start          INTEGER NOT NULL DEFAULT 0 CHECK (start >= 0),
  halted_by      TEXT,
  halted_at      INTEGER,
  waits_for      INTEGER,
  waiting_since  INTEGER,
  arrived        INTEGER NOT NULL DEFAULT 0 CHECK (arrived IN (0, 1)),
  CONSTRAINT halt_is_whole CHECK ((halted_by IS NULL) = (halted_at IS NULL)),
  CONSTRAINT wait_is_whole CHECK ((waits_for IS NULL) = (waiting_since IS NULL)),
  PRIMARY KEY (space, queue, domain)
) STRICT, WITHOUT ROWID;

CREATE INDEX holdfast_domains_halted ON holdfast_domains (space, queue, domain) WHERE halted_by IS NOT NULL;
CREATE INDEX holdfast_domains_waiting ON holdfast_domains (space, queue, waiting_since) WHERE waiting_since IS NOT NULL;
CREATE INDEX holdfast_domains_arrived ON holdfast_domains (space, queue) WHERE arrived = 1;

-- The offsets of jobs that have ended, as ranges that neither overlap nor touch. They stay when the jobs are trimmed.
CREATE TABLE holdfast_ended_offsets (
  space   TEXT    NOT NULL,
  queue   TEXT    NOT NULL,
  domain  TEXT    NOT NULL,
  first   INTEGER NOT NULL,
  last    INTEGER NOT NULL,
  CONSTRAINT range_has_an_offset CHECK (first <= last),
  PRIMARY KEY (space, queue, domain, first)
) STRICT, WITHOUT ROWID;

-- The order in a domain: by offset, then the jobs without an offset in order of arrival.
DROP INDEX holdfast_jobs_domain;
CREATE INDEX holdfast_jobs_domain ON holdfast_jobs (space, queue, domain, "offset", seq) WHERE domain IS NOT NULL;
CREATE UNIQUE INDEX holdfast_jobs_offset ON holdfast_jobs (space, queue, domain, "offset") WHERE "offset" IS NOT NULL;

-- At most one job of a domain has the turn.
CREATE UNIQUE INDEX holdfast_jobs_turn ON holdfast_jobs (space, queue, domain) WHERE domain IS NOT NULL AND turn = 1;

-- The job that had an offset, while its row is kept.
CREATE INDEX holdfast_ended_offset ON holdfast_ended (space, queue, domain, "offset", seq) WHERE "offset" IS NOT NULL;

-- What a queue does about a missing offset: gaps is 'pass' or 'wait'.
ALTER TABLE holdfast_settings ADD COLUMN gaps TEXT NOT NULL DEFAULT 'pass';
ALTER TABLE holdfast_settings ADD COLUMN gap_report_after INTEGER;
ALTER TABLE holdfast_settings ADD COLUMN gap_pass_after INTEGER;
