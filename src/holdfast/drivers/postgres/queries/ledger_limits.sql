-- What judges a reader of the ledger: below which transaction everything is decided, how far it was trimmed, which
-- transaction comes next, and whether rows wait behind one that is not over, which the last row tells. To be asked before
-- the rows are. Relies on the primary key.
SELECT horizon.xid::text::bigint, coalesce(s.trimmed_xid::text::bigint, 0), coalesce(s.trimmed_seq, 0),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       coalesce((SELECT l.xid FROM holdfast.ledger AS l WHERE l.space = %(space)s
                  ORDER BY l.space DESC, l.xid DESC, l.seq DESC LIMIT 1) >= horizon.xid, false)
  FROM (SELECT holdfast.horizon_1() AS xid OFFSET 0) AS horizon
  LEFT JOIN holdfast.spaces AS s ON s.space = %(space)s
