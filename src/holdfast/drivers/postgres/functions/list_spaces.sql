-- Return the names of the spaces that have rows in any table, in order, after a name.
--
-- Locks: none. Index: one that begins with the space in every table; one probe per table and space.
CREATE OR REPLACE FUNCTION list_spaces(_after text, _limit integer) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  _next text := (
    SELECT 'SELECT min(s.space) FROM (' || string_agg(
             format('(SELECT t.space FROM %I AS t WHERE t.space > $1 ORDER BY t.space LIMIT 1)', tables.name),
             ' UNION ALL ') || ') AS s'
      FROM unnest(space_tables()) AS tables (name));
BEGIN
  FOR _number IN 1 .. _limit LOOP
    EXECUTE _next INTO _after USING _after;
    EXIT WHEN _after IS NULL;
    RETURN NEXT _after;
  END LOOP;
END $$;
