-- Return the oldest transaction that may still write to the ledger. Every transaction below it has ended.
--
-- Locks: none. Index: none; reads snapshots and the lock table.
-- Shape: a transaction in another database cannot write here and is ignored. A prepared transaction has no session and
-- is found in pg_prepared_xacts. The database of each running transaction is looked up between two snapshots; a transaction number belongs to one database for good, so the
-- answer stays true. Call this function in a statement before the one that reads the ledger: the reading statement
-- then has a newer snapshot than both snapshots here and sees every row below the horizon. On a standby, a snapshot
-- does not list the running transactions, but its xmin is the oldest one that was replayed and has not ended.
CREATE OR REPLACE FUNCTION ledger_horizon() RETURNS xid8 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  _before pg_snapshot := pg_current_snapshot();
  _elsewhere xid8[] := '{}';
  _after pg_snapshot;
BEGIN
  IF pg_is_in_recovery() THEN
    RETURN pg_snapshot_xmin(_before);
  END IF;
  IF EXISTS (SELECT FROM pg_snapshot_xip(_before)) THEN
    _elsewhere := ARRAY(
      SELECT x.xid
        FROM pg_snapshot_xip(_before) AS x (xid)
        JOIN pg_locks AS l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = x.xid::xid
         AND l.mode = 'ExclusiveLock'
        JOIN pg_stat_activity AS a ON a.pid = l.pid
       WHERE a.datid <> (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
       UNION ALL
      SELECT x.xid
        FROM pg_snapshot_xip(_before) AS x (xid)
        JOIN pg_prepared_xacts AS p ON p.transaction = x.xid::xid AND p.database <> current_database());
  END IF;
  _after := pg_current_snapshot();
  RETURN coalesce((SELECT x.xid FROM pg_snapshot_xip(_after) AS x (xid) WHERE x.xid <> ALL (_elsewhere)
                    ORDER BY x.xid LIMIT 1), pg_snapshot_xmax(_after));
END $$;
