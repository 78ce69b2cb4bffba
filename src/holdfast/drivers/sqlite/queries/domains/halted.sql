-- The halted domains after one, in the order of queues and names. Index: holdfast_domains_halted.
SELECT queue, domain FROM holdfast_domains INDEXED BY holdfast_domains_halted
 WHERE space = ? AND halted_by IS NOT NULL AND (queue, domain) > (?, ?) ORDER BY queue, domain
