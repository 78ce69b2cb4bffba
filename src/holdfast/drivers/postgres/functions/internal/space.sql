-- What every verb of a space needs: its clock, its ledger, its tables.

-- name: effective_now
-- Return the instant that decides about a call: the caller's if it is set, else the server's clock (law L1).
--
-- Locks: none. Index: none.
-- Shape: a SQL expression, so that the planner inlines it into queries. clock_timestamp() moves on inside a
-- transaction: a verb calls this function after it has waited for locks, and now() would be the time before the
-- wait.
CREATE OR REPLACE FUNCTION effective_now(_caller_now bigint) RETURNS bigint LANGUAGE sql VOLATILE
RETURN coalesce(_caller_now, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);


-- name: fit_bytes
-- Return the first of these jobs whose payloads have at most _max_bytes together; at least one.
--
-- Locks: none. Index: none, jobs by ctid.
CREATE OR REPLACE FUNCTION fit_bytes(_taken tid[], _max_bytes bigint) RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT s.job_ctid
      FROM (SELECT t.job_ctid, t.item,
                   sum(octet_length(coalesce(j.payload, load_payload(j.payload_seq))))
                     OVER (ORDER BY t.item ROWS UNBOUNDED PRECEDING) AS total
              FROM unnest(_taken) WITH ORDINALITY AS t (job_ctid, item) JOIN jobs AS j ON j.ctid = t.job_ctid) AS s
     WHERE s.item = 1 OR s.total <= _max_bytes ORDER BY s.item);
END $$;


-- name: ledger_horizon
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


-- name: ledger_shift
-- Return what is added to the transaction numbers of this epoch in the ledger (see schema/002_origin.sql). Raise HF002
-- if the store was restored into another server or database and its epoch has not begun: the numbers of its ledger
-- rows and those of the server cannot be compared.
--
-- Locks: none. Index: none; reads the control file of the server.
CREATE OR REPLACE FUNCTION ledger_shift(o origin) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF o.system_identifier <> (SELECT s.system_identifier FROM pg_control_system() AS s)
     OR o.database_oid <> (SELECT d.oid::bigint FROM pg_database AS d WHERE d.datname = current_database()) THEN
    RAISE SQLSTATE 'HF002' USING MESSAGE = 'the store was restored from a backup, and no process has connected since';
  END IF;
  RETURN o.epoch * 281474976710656;
END $$;


-- name: notify_listeners
-- Send a NOTIFY if a lane of this batch has no due job yet: then a worker may be sleeping. The caller calls this
-- function before it stores the jobs. The notification is only a hint, because every waiting worker also polls.
--
-- Locks: advisory, one per space, never waited for. A commit that notifies excludes every other commit that notifies
-- until it is on disk. So of the calls that run at the same time only one notifies. A caller's own transaction
-- (_owns_transaction is false) may stay open for long: it notifies without this lock.
-- Index: jobs_lane, one probe per lane.
-- Shape: count over LIMIT 1 instead of NOT EXISTS, which the planner would turn into a join with all ready jobs.
CREATE OR REPLACE FUNCTION notify_listeners(
  _space text, _channel text, _owns_transaction boolean, _now bigint, _queues text[], _types text[],
  _priorities integer[], _run_at bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT FROM (SELECT DISTINCT a.queue, a.type, coalesce(a.priority, 0) AS priority
                   FROM unnest(_queues, _types, _priorities, _run_at) AS a (queue, type, priority, run_at)
                  WHERE a.run_at IS NULL OR a.run_at <= _now) AS lane
     CROSS JOIN LATERAL (
       SELECT count(*) AS due FROM (
         SELECT FROM jobs AS j
          WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type AND j.priority = lane.priority
            AND NOT j.isolated AND j.state = 'ready' AND j.turn AND j.available_at <= _now
          LIMIT 1) AS first) AS head
     WHERE head.due = 0)
     AND (NOT _owns_transaction OR pg_try_advisory_xact_lock(1212106567, hashtext(_space)))
  THEN
    PERFORM pg_notify(_channel, _space);
  END IF;
END $$;


-- name: load_payload
-- Return a payload that is not in the row of its job; NULL if somebody has removed it.
--
-- Locks: none. Index: the primary key. Shape: the answer refers to the stored value. A caller that asks only for its length
-- does not read it.
CREATE OR REPLACE FUNCTION load_payload(_payload_seq bigint) RETURNS bytea LANGUAGE sql STABLE
RETURN (SELECT p.payload FROM payloads AS p WHERE p.seq = _payload_seq);


-- name: space_tables
-- Return the tables of the store that have a column `space`, `jobs` first: what is not there cannot be leased. Each has an
-- index that begins with the space.
--
-- Locks: none. Reads the catalogue, so that a new table is never forgotten.
CREATE OR REPLACE FUNCTION space_tables() RETURNS name[] LANGUAGE sql STABLE AS $$
  SELECT array_agg(c.relname ORDER BY c.relname <> 'jobs', c.relname)
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
   WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attname = 'space'
$$;
