-- Pages of the ledger, below the oldest transaction that still writes (L13).

-- name: delay
-- The oldest transaction of this database that has a number: no reader sees ledger rows of later ones (see
-- ledger_horizon). Its age in microseconds, its process, its program or name, and its state. A
-- role without the rights of pg_read_all_stats does not see the age; then it is that of the oldest row that is held back.
-- Index: the primary key of ledger; reads the lists of locks, sessions and prepared transactions.
SELECT coalesce((extract(epoch FROM clock_timestamp() - t.began) * 1000000)::bigint,
                holdfast.effective_now(NULL) - (
                  SELECT l.ended_at FROM holdfast.ledger AS l
                   WHERE l.space = %(space)s
                     AND l.xid >= (SELECT (holdfast.ledger_horizon()::text::bigint + holdfast.ledger_shift(o))::text::xid8
                                     FROM holdfast.origin AS o)
                   ORDER BY l.xid, l.seq LIMIT 1),
                0),
       t.pid, t.name, t.state
  FROM (SELECT a.xact_start AS began, a.pid, coalesce(a.application_name, '') AS name, coalesce(a.state, 'open') AS state,
               age(k.transactionid) AS older_by
          FROM pg_locks AS k JOIN pg_stat_activity AS a ON a.pid = k.pid
         WHERE k.locktype = 'transactionid' AND k.granted AND k.mode = 'ExclusiveLock'
           AND a.datname = current_database() AND a.pid <> pg_backend_pid()
        UNION ALL
        SELECT p.prepared, NULL, p.gid, 'prepared', age(p.transaction)
          FROM pg_prepared_xacts AS p WHERE p.database = current_database()) AS t
 ORDER BY t.older_by DESC LIMIT 1


-- name: limits
-- The values that a reader's position is checked against: the horizon, how far the ledger was trimmed, the next transaction
-- number, and whether rows are held back by a running transaction (the last row is at or above the horizon). Run it
-- before the statement that reads rows (see ledger_horizon). Index: the primary key of
-- ledger.
SELECT horizon.xid, coalesce(s.trimmed_xid::text::bigint, 0), coalesce(s.trimmed_seq, 0),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint + horizon.shift,
       coalesce((SELECT l.xid FROM holdfast.ledger AS l WHERE l.space = %(space)s
                  ORDER BY l.space DESC, l.xid DESC, l.seq DESC LIMIT 1) >= horizon.xid::text::xid8, false)
  FROM (SELECT holdfast.ledger_horizon()::text::bigint + holdfast.ledger_shift(o) AS xid,
               holdfast.ledger_shift(o) AS shift
          FROM holdfast.origin AS o OFFSET 0) AS horizon
  LEFT JOIN holdfast.spaces AS s ON s.space = %(space)s


-- name: marks
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


-- name: of_transactions
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


-- name: rest
-- The number of ledger rows after a position, up to a maximum, and the position of the last of them. Index: the
-- primary key.
SELECT count(*) OVER (), l.xid::text::bigint, l.seq
  FROM (SELECT xid, seq
          FROM holdfast.ledger
         WHERE space = %(space)s AND xid < %(horizon)s::text::xid8 AND (xid, seq) > (%(xid)s::text::xid8, %(seq)s)
         ORDER BY xid, seq LIMIT %(most)s) AS l
 ORDER BY l.xid DESC, l.seq DESC LIMIT 1


-- name: rows
-- A page of the ledger: the fields of LedgerRow, then the position of the row. Index: the primary key.
-- Shape: a scan reads the facts that judge its position once per page (limits), not in every row as read_ledger
-- does.
SELECT {l.ledger_columns}, l.xid, l.seq
  FROM holdfast.ledger AS l
 WHERE l.space = %(space)s AND l.xid < %(horizon)s::text::xid8 AND (l.xid, l.seq) > (%(xid)s::text::xid8, %(seq)s)
 ORDER BY l.xid, l.seq LIMIT %(limit)s


-- name: tail
-- The last rows of the ledger up to a position, the newest first: the fields of LedgerRow, then the position of the row.
-- Index: the primary key, read backwards.
SELECT {l.ledger_columns}, l.xid::text::bigint, l.seq
  FROM holdfast.ledger AS l
 WHERE l.space = %(space)s AND l.xid < %(horizon)s::text::xid8 AND (l.xid, l.seq) <= (%(xid)s::text::xid8, %(seq)s)
 ORDER BY l.xid DESC, l.seq DESC LIMIT %(limit)s
