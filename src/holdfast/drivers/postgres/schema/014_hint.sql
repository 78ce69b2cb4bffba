-- hint_1 again (see 003_enqueue), with the head of each lane looked up from inside LATERAL ... LIMIT, which the planner
-- must leave alone: NOT EXISTS is turned into a join while the table is empty and without statistics, and that reads what
-- waits in all other queues, for as long as the session keeps its plan.
CREATE OR REPLACE FUNCTION hint_1(
  _space text, _channel text, _alone boolean, _now bigint, _queues text[], _types text[], _priorities integer[],
  _run_at bigint[]
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s'
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF EXISTS (
    SELECT FROM (SELECT DISTINCT a.queue, a.type, coalesce(a.priority, 0) AS priority
                   FROM unnest(_queues, _types, _priorities, _run_at) AS a (queue, type, priority, run_at)
                  WHERE a.run_at IS NULL OR a.run_at <= _now) AS lane
     CROSS JOIN LATERAL (
       SELECT count(*) AS due FROM (
         SELECT FROM jobs AS j
          WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type AND j.priority = lane.priority
            AND j.state = 'ready' AND j.turn AND j.available_at <= _now
          LIMIT 1) AS first) AS head
     WHERE head.due = 0)
     AND (NOT _alone OR pg_try_advisory_xact_lock(1212106567, hashtext(_space)))
  THEN
    PERFORM pg_notify(_channel, _space);
  END IF;
END $$;
