-- Make all of these registry changes or none. Return the kind and key of the first change whose version differed, or
-- NULL if all were made.
--
-- Locks: the rows of the entries. Index: the primary key of registry.
-- Shape: the inner block is a savepoint. The exception undoes the changes before the refused one; PL/pgSQL variables
-- keep their values.
CREATE OR REPLACE FUNCTION write_entries(
  _space text, _now bigint, _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[],
  OUT kind text, OUT key text
) LANGUAGE plpgsql AS $$
BEGIN
  BEGIN
    FOR _item IN 1 .. cardinality(_kinds) LOOP
      IF (write_entry(_space, _now, _kinds[_item], _keys[_item], _values[_item], _versions[_item],
                      _ttls[_item])).version IS NULL THEN
        kind := _kinds[_item];
        key := _keys[_item];
        RAISE SQLSTATE 'HF001';
      END IF;
    END LOOP;
  EXCEPTION WHEN SQLSTATE 'HF001' THEN
    NULL;
  END;
END $$;
