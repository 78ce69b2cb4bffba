-- Let the next reserve look at every key that had parked jobs. Index: the primary key.
UPDATE holdfast_limit_keys SET wake_at = 0 WHERE space = :space AND parked
