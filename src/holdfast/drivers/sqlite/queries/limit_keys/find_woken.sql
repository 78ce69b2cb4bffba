-- The keys of one queue whose parked jobs reserve must look at now. Index: holdfast_limit_keys_wake.
SELECT key FROM holdfast_limit_keys INDEXED BY holdfast_limit_keys_wake
 WHERE space = :space AND queue = :queue AND wake_at <= :now
 ORDER BY wake_at LIMIT :limit
