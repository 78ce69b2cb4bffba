-- The tables that have a column `space`, each with the columns of its primary key. Reads the schema.
SELECT t.name, group_concat(c.name, ', ')
  FROM sqlite_schema AS t CROSS JOIN pragma_table_info(t.name) AS c
 WHERE t.type = 'table' AND t.name LIKE 'holdfast\_%' ESCAPE '\' AND c.pk > 0
   AND EXISTS (SELECT 1 FROM pragma_table_info(t.name) AS s WHERE s.name = 'space')
 GROUP BY t.name ORDER BY t.name
