-- The number of ledger rows after a position, up to a maximum, and the position of the last of them. Index: the
-- primary key.
SELECT count(*) OVER (), l.xid::text::bigint, l.seq
  FROM (SELECT xid, seq
          FROM holdfast.ledger
         WHERE space = %(space)s AND xid < %(horizon)s::text::xid8 AND (xid, seq) > (%(xid)s::text::xid8, %(seq)s)
         ORDER BY xid, seq LIMIT %(most)s) AS l
 ORDER BY l.xid DESC, l.seq DESC LIMIT 1
