-- The domains after one that may wait, in the order of queues and names. Index: the primary key; reads all rows after
-- it, which only halted, waiting and moved domains have.
SELECT queue, domain FROM holdfast_domains
 WHERE space = ? AND (waits_for IS NOT NULL OR arrived) AND (queue, domain) > (?, ?) ORDER BY queue, domain
