-- Which of these offsets are known: open jobs first, then offsets that have ended, with their last job while its row is
-- kept. :offsets is [[queue, domain, offset], ...]. Index: holdfast_jobs_domain, the primary key of
-- holdfast_ended_offsets, holdfast_ended_offset; a few probes per offset.
WITH given (queue, domain, place) AS MATERIALIZED (
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(:offsets)
)
SELECT given.queue, given.domain, given.place, j.id, {payload}, 0 AS past
  FROM given
 CROSS JOIN holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
    ON j.space = :space AND j.queue = given.queue AND j.domain = given.domain AND j."offset" = given.place
UNION ALL
SELECT given.queue, given.domain, given.place, e.id, {payload}, 1
  FROM given
 CROSS JOIN holdfast_ended_offsets AS r
    ON r.space = :space AND r.queue = given.queue AND r.domain = given.domain
   AND r.first = (SELECT max(p.first) FROM holdfast_ended_offsets AS p
                   WHERE p.space = :space AND p.queue = given.queue AND p.domain = given.domain
                     AND p.first <= given.place)
   AND r.last >= given.place
  LEFT JOIN holdfast_ended AS e
    ON e.seq = (SELECT max(n.seq) FROM holdfast_ended AS n INDEXED BY holdfast_ended_offset
                 WHERE n.space = :space AND n.queue = given.queue AND n.domain = given.domain
                   AND n."offset" = given.place)
