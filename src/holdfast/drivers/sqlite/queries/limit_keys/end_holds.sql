-- End the holds of all keys of a queue, and let the next reserve look at their parked jobs. Index: the primary key.
UPDATE holdfast_limit_keys SET held_until = NULL, wake_at = CASE WHEN parked THEN 0 END WHERE space = ? AND queue = ?
