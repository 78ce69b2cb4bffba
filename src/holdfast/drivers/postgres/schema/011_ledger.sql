-- The oldest transaction that may still write to the ledger: everything below it is decided. Those of other databases
-- cannot, and do not count; whose they are is asked between two snapshots, because a number belongs to one database for
-- good. To be called before the statement that reads the ledger, which then has a newer snapshot than both.
CREATE FUNCTION horizon_1() RETURNS xid8 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  _before pg_snapshot := pg_current_snapshot();
  _elsewhere xid8[] := '{}';
  _after pg_snapshot;
BEGIN
  IF EXISTS (SELECT FROM pg_snapshot_xip(_before)) THEN
    _elsewhere := ARRAY(
      SELECT x.xid
        FROM pg_snapshot_xip(_before) AS x (xid)
        JOIN pg_locks AS l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = x.xid::xid
         AND l.mode = 'ExclusiveLock'
        JOIN pg_stat_activity AS a ON a.pid = l.pid
       WHERE a.datid <> (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()));
  END IF;
  _after := pg_current_snapshot();
  RETURN coalesce((SELECT x.xid FROM pg_snapshot_xip(_after) AS x (xid) WHERE x.xid <> ALL (_elsewhere)
                    ORDER BY x.xid LIMIT 1), pg_snapshot_xmax(_after));
END $$;

-- A page of the ledger, and in every row what judges the cursor: how far it was trimmed, which transaction comes next,
-- and whether rows wait behind one that is not over. Always at least one row. Relies on the primary key.
CREATE FUNCTION ledger_1(_space text, _xid bigint, _seq bigint, _limit integer)
RETURNS TABLE (
  trimmed_xid bigint, trimmed_seq bigint, next_xid bigint, held_back boolean, row_xid bigint, row_seq bigint,
  job_id text, type text, queue text, domain text, "offset" bigint, attempt integer, fence bigint, worker text,
  enqueued_at bigint, available_at bigint, reserved_at bigint, started_at bigint, ended_at bigint, ending text,
  state text, detail text, error text
) LANGUAGE plpgsql ROWS 1000
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  _horizon xid8 := horizon_1();
  _trimmed_xid xid8 := '0';
  _trimmed_seq bigint := 0;
BEGIN
  SELECT s.trimmed_xid, s.trimmed_seq INTO _trimmed_xid, _trimmed_seq FROM spaces AS s WHERE s.space = _space;
  IF NOT FOUND THEN
    _trimmed_xid := '0';
    _trimmed_seq := 0;
  END IF;
  RETURN QUERY
  SELECT _trimmed_xid::text::bigint, _trimmed_seq, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
         EXISTS (SELECT FROM ledger AS l WHERE l.space = _space AND l.xid >= _horizon),
         l.row_xid, l.row_seq, l.job_id, l.type, l.queue, l.domain, l."offset", l.attempt, l.fence, l.worker,
         l.enqueued_at, l.available_at, l.reserved_at, l.started_at, l.ended_at, l.ending, l.state, l.detail, l.error
    FROM (SELECT 1) AS one
    LEFT JOIN LATERAL (
      SELECT l.xid::text::bigint AS row_xid, l.seq AS row_seq, l.*
        FROM ledger AS l
       WHERE l.space = _space AND l.xid < _horizon
         AND (l.xid, l.seq) > (coalesce(_xid::text::xid8, _trimmed_xid), coalesce(_seq, _trimmed_seq))
       ORDER BY l.xid, l.seq LIMIT _limit) AS l ON true
   ORDER BY l.row_xid, l.row_seq;
END $$;

-- The last row that is decided, or where the ledger was trimmed: what follows it has not ended yet, or not for all.
CREATE FUNCTION ledger_end_1(_space text) RETURNS TABLE (row_xid bigint, row_seq bigint, held_back boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  _horizon xid8 := horizon_1();
BEGIN
  RETURN QUERY
  SELECT coalesce(l.xid, s.trimmed_xid, '0')::text::bigint, coalesce(l.seq, s.trimmed_seq, 0),
         EXISTS (SELECT FROM ledger AS late WHERE late.space = _space AND late.xid >= _horizon)
    FROM (SELECT 1) AS one
    LEFT JOIN spaces AS s ON s.space = _space
    LEFT JOIN LATERAL (
      SELECT l.xid, l.seq FROM ledger AS l WHERE l.space = _space AND l.xid < _horizon
       ORDER BY l.xid DESC, l.seq DESC LIMIT 1) AS l ON true;
END $$;
