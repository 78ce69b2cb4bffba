-- The oldest transaction of this database that has a number: no reader sees ledger rows of later ones (see
-- functions/internal/ledger_horizon.sql). Its age in microseconds, its process, its program or name, and its state. A
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
