-- A page of one kind in order of keys, from :start on and below :stop (NULL: to the end).
SELECT key, value, version, expires_at FROM holdfast_registry
 WHERE space = :space AND kind = :kind AND key >= :start AND key > :after AND (:stop IS NULL OR key < :stop)
   AND (expires_at IS NULL OR expires_at > :now)
 ORDER BY key LIMIT :limit
