-- One compare-and-set, in one statement: the version that was written, 0 for a removal, NULL if another was found.
CREATE FUNCTION write_one_1(
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

-- Each change in order, seeing the ones before it.
CREATE FUNCTION write_1(
  _space text, _given bigint, _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[]
) RETURNS TABLE (version bigint, expires_at bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET lock_timeout = '30s' AS $$
DECLARE
  _now bigint := instant_1(_given);
  _place integer;
BEGIN
  FOR _place IN 1 .. cardinality(_kinds) LOOP
    SELECT w.version, w.expires_at INTO version, expires_at
      FROM write_one_1(_space, _now, _kinds[_place], _keys[_place], _values[_place], _versions[_place], _ttls[_place])
           AS w;
    RETURN NEXT;
  END LOOP;
END $$;
