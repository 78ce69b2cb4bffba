-- The bytes of each table with its indexes. Reads the catalogue and asks for the sizes of the files.
SELECT c.relname::text, pg_total_relation_size(c.oid)
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = %(schema)s AND c.relkind = 'r'
 ORDER BY 2 DESC
