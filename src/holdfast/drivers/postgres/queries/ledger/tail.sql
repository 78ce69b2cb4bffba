-- The last rows of the ledger up to a position, the newest first: the fields of LedgerRow, then the position of the row.
-- Index: the primary key, read backwards.
SELECT {l.ledger_columns}, l.xid::text::bigint, l.seq
  FROM holdfast.ledger AS l
 WHERE l.space = %(space)s AND l.xid < %(horizon)s::text::xid8 AND (l.xid, l.seq) <= (%(xid)s::text::xid8, %(seq)s)
 ORDER BY l.xid DESC, l.seq DESC LIMIT %(limit)s
