-- The ended offsets of domains, as ranges.

-- name: find_ranges
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


-- name: remove
-- Remove all ended offsets of a domain. Index: the primary key.
DELETE FROM holdfast_ended_offsets WHERE space = ? AND queue = ? AND domain = ?


-- name: remove_range
-- Remove a range of ended offsets that has become part of another one. Index: the primary key.
DELETE FROM holdfast_ended_offsets WHERE space = ? AND queue = ? AND domain = ? AND first = ?


-- name: store_range
-- Store a range of ended offsets, or the new end of one. Index: the primary key.
INSERT INTO holdfast_ended_offsets (space, queue, domain, first, last) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, domain, first) DO UPDATE SET last = excluded.last
