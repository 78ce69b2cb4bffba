-- Return how many more jobs the settings of these queues allow now, per queue (type '') and per type. The same
-- arithmetic as QueueSettings.allowance in model/queue_settings.py; 10000 is the largest batch.
--
-- Locks: none; lock_limits has locked the rows. Index: the primary key of settings, and jobs_leased to count leases.
-- Shape: a row that got its limit after lock_limits, such as that of a paused queue, is not locked: then other reserves
-- count the same free places, and none of its jobs is taken. xmax is the transaction that has locked the row.
CREATE OR REPLACE FUNCTION free_capacity(_space text, _queues text[], _now bigint)
RETURNS TABLE (queue text, type text, free bigint) LANGUAGE sql AS $$
  SELECT s.queue, s.type,
         CASE WHEN greatest(s.paused_until, s.held_until) > _now THEN 0
              WHEN (s.max_inflight IS NOT NULL OR s.rate IS NOT NULL OR s.probing OR s.keyed)
                   AND (s.xmax = pg_current_xact_id_if_assigned()::xid) IS NOT TRUE THEN 0
              ELSE greatest(0, least(
           10000,
           CASE WHEN s.probing THEN 1 ELSE s.max_inflight END
                          - (SELECT count(*) FROM jobs AS j
                              WHERE (s.probing OR s.max_inflight IS NOT NULL) AND j.space = _space AND j.queue = s.queue
                                AND j.state = 'inflight' AND s.type IN ('', j.type)),
           floor(bucket_level(s.rate, s.burst, s.level, s.level_at, _now) / 1000000.0)::bigint)) END
    FROM settings AS s
   WHERE s.space = _space AND s.queue = ANY (_queues)
$$;
