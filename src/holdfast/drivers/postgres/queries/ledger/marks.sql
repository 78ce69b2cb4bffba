-- The position of every n-th row of the ledger after a position, up to a number of marks. Index: the primary key.
-- Shape: a row that OFFSET skips costs one step in the index; numbering rows by a window function costs five times
-- that.
WITH RECURSIVE mark (xid, seq, number) AS (
  SELECT %(xid)s::text::xid8, %(seq)s::bigint, 0
   UNION ALL
  SELECT next.xid, next.seq, mark.number + 1
    FROM mark
   CROSS JOIN LATERAL (
     SELECT l.xid, l.seq
       FROM holdfast.ledger AS l
      WHERE l.space = %(space)s AND l.xid < %(horizon)s::text::xid8 AND (l.xid, l.seq) > (mark.xid, mark.seq)
      ORDER BY l.xid, l.seq
     OFFSET %(every)s - 1 LIMIT 1) AS next
   WHERE mark.number < %(marks)s
)
SELECT xid::text::bigint, seq FROM mark WHERE number > 0 ORDER BY number
