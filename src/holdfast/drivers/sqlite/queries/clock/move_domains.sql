-- Let the domains that stopped later than :limit have stopped now. Index: the primary key.
UPDATE holdfast_domains SET halted_at = min(halted_at, :now), waiting_since = min(waiting_since, :now)
 WHERE space = :space AND (halted_at > :limit OR waiting_since > :limit)
