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
