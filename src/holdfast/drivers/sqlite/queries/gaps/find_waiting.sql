-- The domains of one queue that have waited since :since or longer, and still wait; the longest first.
-- Index: holdfast_domains_waiting.
SELECT queue, domain FROM holdfast_domains INDEXED BY holdfast_domains_waiting
 WHERE space = :space AND queue = :queue AND waiting_since <= :since AND NOT arrived
 ORDER BY waiting_since LIMIT :limit
