-- The ranges of ended offsets that contain one of these offsets or touch it. :offsets is
-- [[queue, domain, offset], ...]. Index: the primary key, a probe and a range of at most two rows per offset.
WITH given (queue, domain, place) AS MATERIALIZED (
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(:offsets)
)
SELECT r.queue, r.domain, r.first, r.last
  FROM given
 CROSS JOIN holdfast_ended_offsets AS r
    ON r.space = :space AND r.queue = given.queue AND r.domain = given.domain
   AND r.first BETWEEN coalesce((SELECT max(p.first) FROM holdfast_ended_offsets AS p
                                  WHERE p.space = :space AND p.queue = given.queue AND p.domain = given.domain
                                    AND p.first <= given.place), given.place) AND given.place + 1
