-- Domains that wait for missing offsets.

-- name: begin_wait
-- Let a domain wait for an offset. Index: the primary key.
INSERT INTO holdfast_domains (space, queue, domain, waits_for, waiting_since) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, domain) DO UPDATE SET waits_for = excluded.waits_for, waiting_since = excluded.waiting_since


-- name: clear_arrived
-- A reserve has looked for a gap in this domain. Index: the primary key.
UPDATE holdfast_domains SET arrived = 0 WHERE space = ? AND queue = ? AND domain = ?


-- name: end_wait
-- Let a domain wait no longer. Index: the primary key.
UPDATE holdfast_domains SET waits_for = NULL, waiting_since = NULL WHERE space = ? AND queue = ? AND domain = ?


-- name: find_arrived
-- The domains of one queue in which the next reserve looks for gaps. Index: holdfast_domains_arrived.
SELECT queue, domain FROM holdfast_domains INDEXED BY holdfast_domains_arrived
 WHERE space = :space AND queue = :queue AND arrived = 1 LIMIT :limit


-- name: find_waiting
-- The domains of one queue that have waited since :since or longer, and still wait; the longest first.
-- Index: holdfast_domains_waiting.
SELECT queue, domain FROM holdfast_domains INDEXED BY holdfast_domains_waiting
 WHERE space = :space AND queue = :queue AND waiting_since <= :since AND NOT arrived
 ORDER BY waiting_since LIMIT :limit


-- name: pass
-- Let a domain begin at its first open offset. The offsets before it have not ended: one that arrives runs next.
-- Index: the primary key, holdfast_jobs_domain.
UPDATE holdfast_domains
   SET start = coalesce((SELECT j."offset" FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
                          WHERE j.space = holdfast_domains.space AND j.queue = holdfast_domains.queue
                            AND j.domain = holdfast_domains.domain AND j."offset" IS NOT NULL
                          ORDER BY j."offset", j.seq LIMIT 1), start)
 WHERE space = ? AND queue = ? AND domain = ?


-- name: set_arrived
-- Let the next reserve look for a gap in a domain. Index: the primary key.
INSERT INTO holdfast_domains (space, queue, domain, arrived) VALUES (?, ?, ?, 1)
ON CONFLICT (space, queue, domain) DO UPDATE SET arrived = 1
