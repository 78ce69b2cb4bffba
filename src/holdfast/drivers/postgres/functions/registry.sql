-- Change registry entries.

-- name: write_registry
-- Make registry changes, each if its version does not differ; _together: all, or none if one version differs. Return the
-- version and expiry of each, in order: the version is 0 for a removal, and NULL for a change that was not made.
--
-- Locks: as write_each and write_entries; in the loop, the rows of the entries in the order of the changes. Index: the
-- primary key of registry. Shape: a change sees the changes before it, so a batch that names an entry twice is made one
-- by one. So are a few changes: that is faster.
CREATE OR REPLACE FUNCTION write_registry(
  _space text, _caller_now bigint, _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[],
  _together boolean DEFAULT false
) RETURNS TABLE (version bigint, expires_at bigint) LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _count integer := cardinality(_kinds);
  _item integer;
  _refused integer[];
BEGIN
  IF _together AND _count > 1 THEN
    PERFORM FROM write_entries(_space, _now, array_fill(1, ARRAY[_count]), _kinds, _keys, _values, _versions, _ttls);
    _refused := CASE WHEN FOUND THEN ARRAY(SELECT generate_series(1, _count)) ELSE '{}' END;
  ELSIF _count <= 16
     OR (SELECT count(*) FROM (SELECT DISTINCT w.kind, w.key FROM unnest(_kinds, _keys) AS w (kind, key)) AS d)
        < _count
  THEN
    FOR _item IN 1 .. _count LOOP
      SELECT w.version, w.expires_at INTO version, expires_at
        FROM write_entry(_space, _now, _kinds[_item], _keys[_item], _values[_item], _versions[_item],
                         _ttls[_item]) AS w;
      RETURN NEXT;
    END LOOP;
    RETURN;
  ELSE
    _refused := write_each(_space, _now, _kinds, _keys, _values, _versions, _ttls);
  END IF;

  RETURN QUERY
  SELECT CASE WHEN w.position IN (SELECT unnest(_refused)) THEN NULL
              WHEN w.value IS NULL THEN 0
              ELSE r.version END,
         CASE WHEN w.position NOT IN (SELECT unnest(_refused)) THEN r.expires_at END
    FROM unnest(_kinds, _keys, _values) WITH ORDINALITY AS w (kind, key, value, position)
    LEFT JOIN LATERAL (
      SELECT r.version, r.expires_at FROM registry AS r
       WHERE r.space = _space AND r.kind = w.kind AND r.key = w.key OFFSET 0) AS r ON true
   ORDER BY w.position;
END $$;
