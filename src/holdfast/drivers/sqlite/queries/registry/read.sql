-- One entry of the registry, if it has not expired. Index: the primary key.
SELECT key, value, version, expires_at FROM holdfast_registry
 WHERE space = :space AND kind = :kind AND key = :key AND (expires_at IS NULL OR expires_at > :now)
