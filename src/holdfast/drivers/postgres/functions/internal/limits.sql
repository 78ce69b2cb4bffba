-- Limits of queues and types: free places and rates.

-- name: bucket_level
-- Return the level of a rate bucket now, in millionths of a job; NULL without a rate. The same arithmetic as
-- QueueSettings._level in model/queue_settings.py.
--
-- Locks: none. Index: none.
-- Shape: what flowed in is cut at 1e16, above every full bucket (2^31 jobs): after a long idle time the product
-- does not fit into a bigint.
CREATE OR REPLACE FUNCTION bucket_level(
  _rate double precision, _burst integer, _level bigint, _level_at bigint, _now bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN (SELECT CASE WHEN _level IS NULL OR b.level >= b.full_level + 1000000 THEN b.full_level ELSE b.level END
          FROM (SELECT coalesce(_burst, greatest(1, ceil(_rate)))::bigint * 1000000,
                       _level + floor(least(1e16, greatest(0, _now - _level_at) * _rate + 0.001))::bigint) AS b (full_level, level)
         WHERE _rate IS NOT NULL);


-- name: bucket_reaches
-- Return when a rate bucket has a level, in millionths of a job; NULL without a rate or for a bucket that is unused. The
-- same arithmetic as QueueSettings.opens_at in model/queue_settings.py.
--
-- Locks: none. Index: none.
-- Shape: the time is cut at 1e16, longer than any instant: at a tiny rate it does not fit into a bigint.
CREATE OR REPLACE FUNCTION bucket_reaches(
  _wanted bigint, _rate double precision, _level bigint, _level_at bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN _level_at + ceil(least(1e16, (_wanted - _level - 0.001) / _rate))::bigint;


-- name: free_capacity
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


-- name: lock_limits
-- Return two flags: whether a queue of these is paused or limited, and whether one is keyed. NULL: neither. Lock the
-- settings that limit the queues.
--
-- Locks: the rows of `settings` with max_inflight, rate or probing, and those of keyed queues, sorted by queue and type, so
-- that two reserves cannot use the same capacity. Queues without limits lock nothing. Index: the primary key of settings.
-- Shape: the caller reads the capacity in a later statement, which sees what the previous holder of the lock
-- committed.
CREATE OR REPLACE FUNCTION lock_limits(_space text, _queues text[]) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
  _is_limited boolean;  -- NULL: neither paused, limited nor keyed
  _has_locks boolean;
  _is_keyed boolean;
BEGIN
  SELECT bool_or(s.paused_until IS NOT NULL OR s.held_until IS NOT NULL OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL
                 OR s.probing),
         bool_or(s.max_inflight IS NOT NULL OR s.rate IS NOT NULL OR s.probing OR s.keyed), bool_or(s.keyed)
    INTO _is_limited, _has_locks, _is_keyed
    FROM settings AS s
   WHERE s.space = _space AND s.queue = ANY (_queues)
     AND (s.paused_until IS NOT NULL OR s.held_until IS NOT NULL OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL
          OR s.probing OR s.keyed);
  IF _is_limited IS NULL THEN
    RETURN NULL;
  END IF;
  IF _has_locks THEN
    PERFORM FROM settings AS s
      WHERE s.space = _space AND s.queue = ANY (_queues)
        AND (s.max_inflight IS NOT NULL OR s.rate IS NOT NULL OR s.probing OR s.keyed)
      ORDER BY s.queue, s.type FOR UPDATE;
  END IF;
  RETURN ARRAY[_is_limited, _is_keyed];
END $$;


-- name: opens_at
-- Return when the pauses and the rate of these settings allow the next job; NULL if neither delays it. The same arithmetic
-- as QueueSettings.opens_at in model/queue_settings.py.
--
-- Locks: none. Index: none.
CREATE OR REPLACE FUNCTION opens_at(s settings) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN greatest(s.paused_until, s.held_until,
                CASE WHEN s.level < 1000000 THEN bucket_reaches(1000000, s.rate, s.level, s.level_at) END);


-- name: spend_rates
-- Take the jobs that are about to be leased from the rates of their queues and types.
--
-- Locks: none beside those of lock_limits, which the caller has called. Index: the primary key of settings; jobs by ctid.
CREATE OR REPLACE FUNCTION spend_rates(_space text, _now bigint, _queues text[], _taken tid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE settings AS s
     SET level = bucket_level(s.rate, s.burst, s.level, s.level_at, _now) - used.count * 1000000, level_at = _now
    FROM (SELECT r.queue, r.type,
                 (SELECT count(*) FROM unnest(_taken) AS t (job_ctid) JOIN jobs AS j ON j.ctid = t.job_ctid
                   WHERE j.queue = r.queue AND r.type IN ('', j.type)) AS count
            FROM settings AS r WHERE r.space = _space AND r.queue = ANY (_queues) AND r.rate IS NOT NULL) AS used
   WHERE s.space = _space AND s.queue = used.queue AND s.type = used.type AND used.count > 0;
END $$;
