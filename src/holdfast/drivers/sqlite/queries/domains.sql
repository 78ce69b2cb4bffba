-- Turns, halts and starts of domains (L11).

-- name: describe
-- One domain, for people: its row, its ended offsets, the number of its open jobs, and its head: the job in flight,
-- else the first one. Index: holdfast_jobs_domain, of which every open job of the domain is read; holdfast_jobs_turn,
-- the primary keys.
SELECT coalesce(d.start, 0),
       (SELECT r.last FROM holdfast_ended_offsets AS r
         WHERE r.space = :space AND r.queue = :queue AND r.domain = :domain AND r.first <= coalesce(d.start, 0)
         ORDER BY r.first DESC LIMIT 1),
       EXISTS (SELECT 1 FROM holdfast_ended_offsets AS r
                WHERE r.space = :space AND r.queue = :queue AND r.domain = :domain),
       d.halted_by, d.halted_at, d.waits_for, d.waiting_since, s.gaps, s.gap_report_after,
       (SELECT count(*) FROM holdfast_jobs AS c INDEXED BY holdfast_jobs_domain
         WHERE c.space = :space AND c.queue = :queue AND c.domain = :domain),
       h.id, h."offset", h.state, coalesce(h.parked_from, h.available_at)
  FROM (SELECT 1) AS given
  LEFT JOIN holdfast_jobs AS h ON h.seq = coalesce(
       (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_turn
         WHERE j.space = :space AND j.queue = :queue AND j.domain = :domain AND j.turn = 1 AND j.state = 'inflight'),
       (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
         WHERE j.space = :space AND j.queue = :queue AND j.domain = :domain AND j."offset" IS NOT NULL
         ORDER BY j."offset", j.seq LIMIT 1),
       (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
         WHERE j.space = :space AND j.queue = :queue AND j.domain = :domain AND j."offset" IS NULL
         ORDER BY j.seq LIMIT 1))
  LEFT JOIN holdfast_domains AS d ON d.space = :space AND d.queue = :queue AND d.domain = :domain
  LEFT JOIN holdfast_settings AS s ON s.space = :space AND s.queue = :queue AND s.type = ''


-- name: end_halt
-- Let a halted domain go on. Index: the primary key.
UPDATE holdfast_domains SET halted_by = NULL, halted_at = NULL WHERE space = ? AND queue = ? AND domain = ?


-- name: find_halts
-- The jobs of this list that halt their domains. :jobs is [[queue, domain, id], ...]. Index: the primary key.
SELECT d.halted_by
  FROM json_each(:jobs) AS given
 CROSS JOIN holdfast_domains AS d
    ON d.space = :space AND d.queue = json_extract(given.value, '$[0]') AND d.domain = json_extract(given.value, '$[1]')
 WHERE d.halted_by = json_extract(given.value, '$[2]')


-- name: give_turn
-- Give the turn to jobs whose domains have no job with the turn (L11). :jobs is a JSON list of seqs.
-- Index: the primary key.
UPDATE holdfast_jobs SET turn = 1 WHERE seq IN (SELECT value FROM json_each(:jobs))


-- name: halt
-- Halt the domains of jobs that failed for good, in queues that halt them. A domain that is halted stays as it is.
-- :jobs is [[queue, domain, id], ...]. Index: the primary keys.
INSERT INTO holdfast_domains (space, queue, domain, halted_by, halted_at)
SELECT :space, json_extract(given.value, '$[0]'), json_extract(given.value, '$[1]'),
       json_extract(given.value, '$[2]'), :now
  FROM json_each(:jobs) AS given
 CROSS JOIN holdfast_settings AS s
    ON s.space = :space AND s.queue = json_extract(given.value, '$[0]') AND s.type = '' AND s.on_exhausted = 'halt'
 WHERE true
ON CONFLICT (space, queue, domain) DO UPDATE SET halted_by = excluded.halted_by, halted_at = excluded.halted_at
 WHERE halted_by IS NULL


-- name: halted
-- The halted domains after one, in the order of queues and names. Index: holdfast_domains_halted.
SELECT queue, domain FROM holdfast_domains INDEXED BY holdfast_domains_halted
 WHERE space = ? AND halted_by IS NOT NULL AND (queue, domain) > (?, ?) ORDER BY queue, domain


-- name: has_open
-- Whether a domain has an open job. Index: holdfast_jobs_domain.
SELECT EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
                WHERE j.space = ? AND j.queue = ? AND j.domain = ?)


-- name: heads
-- What decides which job of each of these domains has the turn: its first job, the job that has the turn, its row, and
-- the last ended offset of the range that begins at or before its start. :domains is [[queue, domain], ...].
-- Two probes for the first job: SQLite sorts NULL before every offset, and jobs without an offset come last.
-- MATERIALIZED: the names are taken from the JSON once. Index: holdfast_jobs_domain, holdfast_jobs_turn, the primary
-- keys; a few probes per domain.
WITH given (queue, domain) AS MATERIALIZED (
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:domains)
)
SELECT given.queue, given.domain, f.seq, f."offset", h.seq, h.state, h.limit_key, d.halted_by, d.waits_for,
       s.gaps, coalesce(d.start, 0),
       CASE WHEN s.gaps = 'wait' THEN
         (SELECT r.last FROM holdfast_ended_offsets AS r
           WHERE r.space = :space AND r.queue = given.queue AND r.domain = given.domain
             AND r.first <= coalesce(d.start, 0)
           ORDER BY r.first DESC LIMIT 1) END
  FROM given
  LEFT JOIN holdfast_jobs AS f ON f.seq = coalesce(
       (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
         WHERE j.space = :space AND j.queue = given.queue AND j.domain = given.domain AND j."offset" IS NOT NULL
         ORDER BY j."offset", j.seq LIMIT 1),
       (SELECT j.seq FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
         WHERE j.space = :space AND j.queue = given.queue AND j.domain = given.domain AND j."offset" IS NULL
         ORDER BY j.seq LIMIT 1))
  LEFT JOIN holdfast_jobs AS h INDEXED BY holdfast_jobs_turn
         ON h.space = :space AND h.queue = given.queue AND h.domain = given.domain AND h.turn = 1
  LEFT JOIN holdfast_domains AS d ON d.space = :space AND d.queue = given.queue AND d.domain = given.domain
  LEFT JOIN holdfast_settings AS s ON s.space = :space AND s.queue = given.queue AND s.type = ''


-- name: next_open
-- The next domain with an open job, in the order of queues and names, and both as they are stored: a name that is not
-- UTF-8 is no parameter. Index: holdfast_jobs_domain, one probe.
SELECT queue, domain, CAST(queue AS BLOB), CAST(domain AS BLOB) FROM holdfast_jobs INDEXED BY holdfast_jobs_domain
 WHERE space = ? AND domain IS NOT NULL AND (queue, domain) > (CAST(? AS TEXT), CAST(? AS TEXT))
 ORDER BY queue, domain LIMIT 1


-- name: read
-- What is stored of a domain that is halted, waits, or does not begin at offset 0. Index: the primary key.
SELECT start, halted_by FROM holdfast_domains WHERE space = ? AND queue = ? AND domain = ?


-- name: remove
-- Remove the row of a domain. Index: the primary key.
DELETE FROM holdfast_domains WHERE space = ? AND queue = ? AND domain = ?


-- name: remove_plain
-- Remove the row of a domain of which it says nothing. Index: the primary key.
DELETE FROM holdfast_domains
 WHERE space = ? AND queue = ? AND domain = ? AND start = 0 AND halted_by IS NULL AND waits_for IS NULL AND NOT arrived


-- name: set_start
-- Let a domain wait for no offset before this one. Index: the primary key.
INSERT INTO holdfast_domains (space, queue, domain, start) VALUES (?, ?, ?, ?)
ON CONFLICT (space, queue, domain) DO UPDATE SET start = excluded.start


-- name: take_turn
-- Take the turn from ready jobs. A parked job returns to the place that it had: only jobs with the turn are parked.
-- :jobs is a JSON list of seqs. Index: the primary key.
UPDATE holdfast_jobs SET turn = 0, available_at = coalesce(parked_from, available_at), parked_from = NULL
 WHERE seq IN (SELECT value FROM json_each(:jobs))


-- name: waiting
-- The domains after one that may wait, in the order of queues and names. Index: the primary key; reads all rows after
-- it, which only halted, waiting and moved domains have.
SELECT queue, domain FROM holdfast_domains
 WHERE space = ? AND (waits_for IS NOT NULL OR arrived) AND (queue, domain) > (?, ?) ORDER BY queue, domain
