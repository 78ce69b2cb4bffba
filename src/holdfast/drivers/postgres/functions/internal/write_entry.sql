-- Compare-and-set of one registry entry. Return the new version (0 for a removal) and expiry, or NULL if the version
-- differed. _version: NULL writes in any case, 0 expects no live entry, another number expects that version. _value
-- NULL removes the entry.
--
-- Locks: the row of the entry. Index: the primary key of registry.
-- Shape: each branch is one statement, so that comparing and writing cannot be separated by another session.
CREATE OR REPLACE FUNCTION write_entry(
  _space text, _now bigint, _kind text, _key text, _value bytea, _version bigint, _ttl bigint,
  OUT version bigint, OUT expires_at bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _until bigint := _now + _ttl;
BEGIN
  IF _value IS NULL THEN
    DELETE FROM registry AS r
     WHERE r.space = _space AND r.kind = _kind AND r.key = _key
       AND (_version IS NULL OR (_version = 0 AND r.expires_at <= _now)
            OR (r.version = _version AND (r.expires_at IS NULL OR r.expires_at > _now)));
    IF FOUND OR _version IS NULL
       OR (_version = 0 AND NOT EXISTS (SELECT FROM registry AS r
                                         WHERE r.space = _space AND r.kind = _kind AND r.key = _key)) THEN
      version := 0;
    END IF;
    RETURN;
  END IF;
  IF _version > 0 THEN
    UPDATE registry AS r SET value = _value, version = nextval('counter'), expires_at = _until
     WHERE r.space = _space AND r.kind = _kind AND r.key = _key AND r.version = _version
       AND (r.expires_at IS NULL OR r.expires_at > _now)
    RETURNING r.version INTO version;
  ELSE
    INSERT INTO registry AS r (space, kind, key, value, version, expires_at)
    VALUES (_space, _kind, _key, _value, nextval('counter'), _until)
    ON CONFLICT (space, kind, key) DO UPDATE
       SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
     WHERE _version IS NULL OR r.expires_at <= _now
    RETURNING r.version INTO version;
  END IF;
  IF version IS NOT NULL THEN
    expires_at := _until;
  END IF;
END $$;
