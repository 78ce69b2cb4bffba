-- The values that a reader's position is checked against: the horizon, how far the ledger was trimmed, the next transaction
-- number, and whether rows are held back by a running transaction (the last row is at or above the horizon). Run it
-- before the statement that reads rows (see functions/internal/ledger_horizon.sql). Index: the primary key of
-- ledger.
SELECT horizon.xid, coalesce(s.trimmed_xid::text::bigint, 0), coalesce(s.trimmed_seq, 0),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint + horizon.shift,
       coalesce((SELECT l.xid FROM holdfast.ledger AS l WHERE l.space = %(space)s
                  ORDER BY l.space DESC, l.xid DESC, l.seq DESC LIMIT 1) >= horizon.xid::text::xid8, false)
  FROM (SELECT holdfast.ledger_horizon()::text::bigint + holdfast.ledger_shift(o) AS xid,
               holdfast.ledger_shift(o) AS shift
          FROM holdfast.origin AS o OFFSET 0) AS horizon
  LEFT JOIN holdfast.spaces AS s ON s.space = %(space)s
