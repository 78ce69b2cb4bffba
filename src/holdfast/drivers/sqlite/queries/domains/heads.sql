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
