-- Make the registry changes of several settlements. A settlement makes all its changes, or none if the version of one
-- differs. Return the items that made none, with the kind and key of their first change that differed. The changes of
-- one call name every entry once.
--
-- Locks: the rows of the entries, sorted by kind and key. Index: the primary key of registry.
-- Shape: one statement per step, for all changes. The first one locks every entry in order, and inserts those that do not
-- exist: only a row can be locked, and to insert some entries and to lock others later would break the order. Inserted
-- entries that were to be removed, or belong to a refused item, are removed again.
CREATE OR REPLACE FUNCTION write_entries(
  _space text, _now bigint, _items integer[], _kinds text[], _keys text[], _values bytea[], _versions bigint[],
  _ttls bigint[]
) RETURNS TABLE (item integer, kind text, key text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _inserted integer[];          -- positions of changes
  _differing integer[];
  _refused integer[];           -- items
BEGIN
  WITH new AS (
    INSERT INTO registry AS r (space, kind, key, value, version, expires_at)
    SELECT _space, w.kind, w.key, coalesce(w.value, ''), nextval('counter'), _now + w.ttl
      FROM unnest(_kinds, _keys, _values, _ttls) AS w (kind, key, value, ttl)
     ORDER BY w.kind COLLATE "C", w.key COLLATE "C"
    ON CONFLICT (space, kind, key) DO UPDATE SET value = r.value WHERE false  -- locks the row
    RETURNING r.kind, r.key
  )
  SELECT coalesce(array_agg(w.position), '{}') INTO _inserted
    FROM unnest(_kinds, _keys) WITH ORDINALITY AS w (kind, key, position)
   WHERE ((w.kind, w.key) IN (SELECT n.kind, n.key FROM new AS n)) IS TRUE;

  SELECT coalesce(array_agg(w.position ORDER BY w.position), '{}') INTO _differing
    FROM (SELECT _space AS space, u.kind, u.key, u.version, u.position::integer AS position
            FROM unnest(_kinds, _keys, _versions) WITH ORDINALITY AS u (kind, key, version, position) OFFSET 0) AS w
    JOIN registry AS r ON r.space = ANY (ARRAY[w.space]) AND r.kind = w.kind AND r.key = w.key
   WHERE NOT CASE WHEN w.version IS NULL THEN true
                  WHEN w.position IN (SELECT unnest(_inserted)) THEN w.version = 0
                  WHEN w.version = 0 THEN coalesce(r.expires_at <= _now, false)
                  ELSE r.version = w.version AND coalesce(r.expires_at > _now, true) END;
  _refused := ARRAY(SELECT DISTINCT _items[d.position] FROM unnest(_differing) AS d (position));
  RETURN QUERY
  SELECT DISTINCT ON (_items[d.position]) _items[d.position], _kinds[d.position], _keys[d.position]
    FROM unnest(_differing) AS d (position) ORDER BY _items[d.position], d.position;

  UPDATE registry AS r SET value = w.value, version = nextval('counter'), expires_at = _now + w.ttl
    FROM (SELECT _space AS space, u.* FROM unnest(_items, _kinds, _keys, _values, _ttls) WITH ORDINALITY
                 AS u (item, kind, key, value, ttl, position)
           WHERE u.value IS NOT NULL AND u.position NOT IN (SELECT unnest(_inserted))
             AND u.item NOT IN (SELECT unnest(_refused)) OFFSET 0) AS w
   WHERE r.space = ANY (ARRAY[w.space]) AND r.kind = w.kind AND r.key = w.key;

  DELETE FROM registry AS r
   USING (SELECT _space AS space, u.* FROM unnest(_items, _kinds, _keys, _values) WITH ORDINALITY
                 AS u (item, kind, key, value, position)
           WHERE (u.value IS NULL AND u.item NOT IN (SELECT unnest(_refused)))
              OR (u.position IN (SELECT unnest(_inserted)) AND u.item IN (SELECT unnest(_refused))) OFFSET 0) AS w
   WHERE r.space = ANY (ARRAY[w.space]) AND r.kind = w.kind AND r.key = w.key;
END $$;
