-- Make registry changes one after another; each sees the ones before it. Return the version and expiry of each, in
-- order.
--
-- Locks: the rows of the entries. Index: the primary key of registry.
CREATE OR REPLACE FUNCTION write_registry(
  _space text, _caller_now bigint, _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[]
) RETURNS TABLE (version bigint, expires_at bigint) LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _item integer;
BEGIN
  FOR _item IN 1 .. cardinality(_kinds) LOOP
    SELECT w.version, w.expires_at INTO version, expires_at
      FROM write_entry(_space, _now, _kinds[_item], _keys[_item], _values[_item], _versions[_item], _ttls[_item]) AS w;
    RETURN NEXT;
  END LOOP;
END $$;
