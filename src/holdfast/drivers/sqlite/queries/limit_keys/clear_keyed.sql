-- Let reserve no longer look at the keys of a queue that has none left. Index: the primary keys.
UPDATE holdfast_settings SET keyed = 0
 WHERE space = :space AND queue = :queue AND type = ''
   AND NOT EXISTS (SELECT 1 FROM holdfast_limit_keys AS k WHERE k.space = :space AND k.queue = :queue)
