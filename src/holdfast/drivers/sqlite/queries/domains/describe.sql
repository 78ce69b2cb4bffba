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
