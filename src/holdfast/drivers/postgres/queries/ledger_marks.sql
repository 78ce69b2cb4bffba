-- The place of every so-many-th row of the ledger, as many of them as there are up to a number. Rows that OFFSET leaves
-- out cost a step in the index each; numbering them by a window costs five times as much. Relies on the primary key.
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
