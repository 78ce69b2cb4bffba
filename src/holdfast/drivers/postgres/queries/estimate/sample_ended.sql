-- Ended jobs in a random part of the pages of the table, by queue, type and state.
SELECT e.queue, e.type, e.state, count(*), NULL::bigint
  FROM holdfast.ended AS e TABLESAMPLE SYSTEM (%(percent)s)
 WHERE e.space = %(space)s GROUP BY 1, 2, 3
