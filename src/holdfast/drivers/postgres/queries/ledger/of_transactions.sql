-- The rows that some transactions wrote, in order: the fields of LedgerRow, then the position of the row. The numbers of
-- the transactions are those of the server, without the shift of the epoch (schema/002_origin.sql).
-- Index: the primary key, once per transaction.
SELECT {l.ledger_columns}, l.xid::text::bigint, l.seq
  FROM unnest(%(xids)s::bigint[]) WITH ORDINALITY AS t (xid, call)
 CROSS JOIN holdfast.origin AS o
 CROSS JOIN LATERAL (SELECT l.* FROM holdfast.ledger AS l
                      WHERE l.space = %(space)s AND l.xid = (t.xid + holdfast.ledger_shift(o))::text::xid8
                      ORDER BY l.seq) AS l
 ORDER BY t.call, l.seq
