-- Write an entry. Its version was compared earlier in the same transaction. Index: the primary key.
INSERT INTO holdfast_registry (space, kind, key, value, version, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (space, kind, key) DO UPDATE
   SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
