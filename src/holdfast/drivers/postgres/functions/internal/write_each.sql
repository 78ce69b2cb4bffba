-- Make registry changes, each if its version does not differ. Return the positions of the others, which made no change.
-- The changes of one call name every entry once.
--
-- Locks: the rows of the entries, sorted by kind and key. Index: the primary key of registry.
-- Shape: one statement for all changes, which compares and writes. Nearly all calls have changes of one sort. The others
-- take write_entries, where every change is a settlement of its own: a statement for each sort would break the order of
-- the locks.
CREATE OR REPLACE FUNCTION write_each(
  _space text, _now bigint, _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _new integer[];            -- positions, by what the change expects and does
  _any integer[];
  _known integer[];
  _removing integer[];
  _written bigint[];         -- versions
  _made integer[];
  _refused integer[] := '{}';
BEGIN
  SELECT array_agg(w.position) FILTER (WHERE w.value IS NOT NULL AND w.version = 0),
         array_agg(w.position) FILTER (WHERE w.value IS NOT NULL AND w.version IS NULL),
         array_agg(w.position) FILTER (WHERE w.value IS NOT NULL AND w.version > 0),
         array_agg(w.position) FILTER (WHERE w.value IS NULL)
    INTO _new, _any, _known, _removing
    FROM unnest(_kinds, _values, _versions) WITH ORDINALITY AS w (kind, value, version, position);

  IF num_nonnulls(_new, _any, _known, _removing) > 1 THEN
    RETURN ARRAY(SELECT e.item
                   FROM write_entries(_space, _now, ARRAY(SELECT generate_series(1, cardinality(_kinds))), _kinds, _keys,
                                      _values, _versions, _ttls) AS e);
  END IF;

  IF _new IS NOT NULL THEN
    WITH written AS (
      INSERT INTO registry AS r (space, kind, key, value, version, expires_at)
      SELECT _space, w.kind, w.key, w.value, nextval('counter'), _now + w.ttl
        FROM unnest(_kinds, _keys, _values, _versions, _ttls) AS w (kind, key, value, version, ttl)
       WHERE w.value IS NOT NULL AND w.version = 0
       ORDER BY w.kind COLLATE "C", w.key COLLATE "C"
      ON CONFLICT (space, kind, key) DO UPDATE
         SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
       WHERE r.expires_at <= _now
      RETURNING r.version
    )
    SELECT coalesce(array_agg(w.version), '{}') INTO _written FROM written AS w;
    IF cardinality(_written) < cardinality(_new) THEN
      _refused := ARRAY(
        SELECT n.position
          FROM unnest(_new) AS n (position)
         CROSS JOIN LATERAL (
           SELECT r.version FROM registry AS r
            WHERE r.space = _space AND r.kind = _kinds[n.position] AND r.key = _keys[n.position] OFFSET 0) AS r
         WHERE r.version NOT IN (SELECT unnest(_written)));
    END IF;
  END IF;

  IF _any IS NOT NULL THEN
    INSERT INTO registry AS r (space, kind, key, value, version, expires_at)
    SELECT _space, w.kind, w.key, w.value, nextval('counter'), _now + w.ttl
      FROM unnest(_kinds, _keys, _values, _versions, _ttls) AS w (kind, key, value, version, ttl)
     WHERE w.value IS NOT NULL AND w.version IS NULL
     ORDER BY w.kind COLLATE "C", w.key COLLATE "C"
    ON CONFLICT (space, kind, key) DO UPDATE
       SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at;
  END IF;

  IF _known IS NOT NULL THEN
    WITH written AS (
      UPDATE registry AS r SET value = w.value, version = nextval('counter'), expires_at = _now + w.ttl
        FROM (SELECT _space AS space, u.* FROM unnest(_kinds, _keys, _values, _versions, _ttls) WITH ORDINALITY
                     AS u (kind, key, value, version, ttl, position)
               WHERE u.value IS NOT NULL AND u.version > 0
               ORDER BY u.kind COLLATE "C", u.key COLLATE "C" OFFSET 0) AS w
       WHERE r.space = ANY (ARRAY[w.space]) AND r.kind = w.kind AND r.key = w.key AND r.version = w.version
         AND (r.expires_at IS NULL OR r.expires_at > _now)
      RETURNING w.position
    )
    SELECT coalesce(array_agg(w.position), '{}') INTO _made FROM written AS w;
    _refused := _refused || ARRAY(SELECT k.position FROM unnest(_known) AS k (position)
                                   WHERE k.position NOT IN (SELECT unnest(_made)));
  END IF;

  IF _removing IS NOT NULL THEN
    WITH removed AS (
      DELETE FROM registry AS r
       USING (SELECT _space AS space, u.* FROM unnest(_kinds, _keys, _values, _versions) WITH ORDINALITY
                     AS u (kind, key, value, version, position)
               WHERE u.value IS NULL
               ORDER BY u.kind COLLATE "C", u.key COLLATE "C" OFFSET 0) AS w
       WHERE r.space = ANY (ARRAY[w.space]) AND r.kind = w.kind AND r.key = w.key
         AND CASE WHEN w.version IS NULL THEN true
                  WHEN w.version = 0 THEN coalesce(r.expires_at <= _now, false)
                  ELSE r.version = w.version AND coalesce(r.expires_at > _now, true) END
      RETURNING w.position
    )
    SELECT coalesce(array_agg(w.position), '{}') INTO _made FROM removed AS w;
    -- To remove what does not exist is refused only if a version is expected.
    _refused := _refused || ARRAY(
      SELECT d.position FROM unnest(_removing) AS d (position)
       WHERE d.position NOT IN (SELECT unnest(_made))
         AND (_versions[d.position] > 0
              OR (_versions[d.position] = 0
                  AND EXISTS (SELECT FROM registry AS r
                               WHERE r.space = _space AND r.kind = _kinds[d.position] AND r.key = _keys[d.position]
                              OFFSET 0))));
  END IF;
  RETURN _refused;
END $$;
