-- Write small entries by compare-and-set.

-- name: write_each
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


-- name: write_entries
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


-- name: write_entry
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
