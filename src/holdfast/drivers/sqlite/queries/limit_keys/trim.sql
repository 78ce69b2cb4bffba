-- Delete the keys of one queue of which nothing must be remembered: no parked job, no hold, an unused rate. :rate is NULL
-- if the keys have no rate; :full is the level from which on it is unused. Index: the primary key; reads all keys of the
-- queue.
DELETE FROM holdfast_limit_keys
 WHERE space = :space AND queue = :queue AND NOT parked AND coalesce(held_until, 0) <= :now
   AND (:rate IS NULL OR level IS NULL OR level + max(0, :now - level_at) * :rate >= :full)
