-- The versions of the entries that exist and have not expired. :entries is a JSON list of [kind, key].
-- Index: the primary key.
SELECT r.kind, r.key, r.version
  FROM json_each(:entries) AS given
 CROSS JOIN holdfast_registry AS r
    ON r.space = :space AND r.kind = json_extract(given.value, '$[0]') AND r.key = json_extract(given.value, '$[1]')
 WHERE r.expires_at IS NULL OR r.expires_at > :now
