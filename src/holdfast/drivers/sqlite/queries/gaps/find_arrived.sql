-- The domains of one queue in which the next reserve looks for gaps. Index: holdfast_domains_arrived.
SELECT queue, domain FROM holdfast_domains INDEXED BY holdfast_domains_arrived
 WHERE space = :space AND queue = :queue AND arrived = 1 LIMIT :limit
