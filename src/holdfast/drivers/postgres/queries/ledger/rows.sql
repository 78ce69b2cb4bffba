-- A page of the ledger: the fields of LedgerRow, then the position of the row. Index: the primary key.
-- Shape: a scan reads the facts that judge its position once per page (limits.sql), not in every row as read_ledger
-- does.
SELECT {l.ledger_columns}, l.xid, l.seq
  FROM holdfast.ledger AS l
 WHERE l.space = %(space)s AND l.xid < %(horizon)s::text::xid8 AND (l.xid, l.seq) > (%(xid)s::text::xid8, %(seq)s)
 ORDER BY l.xid, l.seq LIMIT %(limit)s
