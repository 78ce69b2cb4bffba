-- Put a row in its place; the version was compared in the same transaction.
INSERT INTO holdfast_registry (space, kind, key, value, version, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (space, kind, key) DO UPDATE
   SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
