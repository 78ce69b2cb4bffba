-- A page of the entries of one kind, ordered by key, from :start on and before :stop (NULL: to the end).
-- Index: the primary key.
SELECT key, value, version, expires_at FROM holdfast_registry
 WHERE space = :space AND kind = :kind AND key >= :start AND key > :after AND (:stop IS NULL OR key < :stop)
   AND (expires_at IS NULL OR expires_at > :now)
 ORDER BY key LIMIT :limit
