-- Small entries, changed by compare-and-set.

-- name: find_versions
-- The versions of the entries that exist and have not expired. :entries is a JSON list of [kind, key].
-- Index: the primary key.
SELECT r.kind, r.key, r.version
  FROM json_each(:entries) AS given
 CROSS JOIN holdfast_registry AS r
    ON r.space = :space AND r.kind = json_extract(given.value, '$[0]') AND r.key = json_extract(given.value, '$[1]')
 WHERE r.expires_at IS NULL OR r.expires_at > :now


-- name: read
-- One entry of the registry, if it has not expired. Index: the primary key.
SELECT key, value, version, expires_at FROM holdfast_registry
 WHERE space = :space AND kind = :kind AND key = :key AND (expires_at IS NULL OR expires_at > :now)


-- name: remove
-- Remove an entry. Index: the primary key.
DELETE FROM holdfast_registry WHERE space = ? AND kind = ? AND key = ?


-- name: scan
-- A page of the entries of one kind, ordered by key, from :start on and before :stop (NULL: to the end).
-- Index: the primary key.
SELECT key, value, version, expires_at FROM holdfast_registry
 WHERE space = :space AND kind = :kind AND key >= :start AND key > :after AND (:stop IS NULL OR key < :stop)
   AND (expires_at IS NULL OR expires_at > :now)
 ORDER BY key LIMIT :limit


-- name: write
-- Write an entry. Its version was compared earlier in the same transaction. Index: the primary key.
INSERT INTO holdfast_registry (space, kind, key, value, version, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (space, kind, key) DO UPDATE
   SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
