-- Return the tables of the store that have a column `space`, `jobs` first: what is not there cannot be leased. Each has an
-- index that begins with the space.
--
-- Locks: none. Reads the catalogue, so that a new table is never forgotten.
CREATE OR REPLACE FUNCTION space_tables() RETURNS name[] LANGUAGE sql STABLE AS $$
  SELECT array_agg(c.relname ORDER BY c.relname <> 'jobs', c.relname)
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
   WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attname = 'space'
$$;
