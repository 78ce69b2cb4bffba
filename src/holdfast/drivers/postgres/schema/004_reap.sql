-- What an expired job becomes: decide.expired, in SQL.
CREATE FUNCTION expired_1(_item integer, _place tid, j jobs, _now bigint) RETURNS outcome_1 LANGUAGE plpgsql STABLE AS $$
DECLARE
  o outcome_1;
BEGIN
  o.item := _item;
  o.place := _place;
  o.verb := 'expired';  -- no settlement can be a replay of it
  o.attempts := j.attempts;
  o.crashes := j.crashes + 1;
  o.last_error := j.last_error;
  o.failed_at := j.failed_at;
  o.released_for := 0;
  o.run_at := j.run_at;
  o.available_at := j.available_at;
  o.detail := '';
  o.error := '';
  o.ending := 'expired';
  IF j.cancel_requested THEN
    o.state := 'cancelled';
    o.ending := 'cancelled';
    o.detail := 'lease expired';
  ELSIF j.attempts >= j.max_attempts THEN
    o.state := 'dead';
    o.dead_reason := 'lease expired';
    o.dead_at := _now;
  ELSIF o.crashes >= j.max_crashes THEN
    o.state := 'dead';
    o.dead_reason := 'poison';
    o.dead_at := _now;
  ELSE
    o.state := 'ready';
    o.run_at := NULL;
    o.available_at := least(j.expires_at, _now);
  END IF;
  RETURN o;
END $$;

-- End expired leases, oldest first, in these queues (NULL: all); of a worker that is known to be dead, all its leases.
-- Never waits for a row that another session is settling. Relies on jobs_leased, whose check_at is at or before
-- expires_at: a lease that was extended is looked at once in its length, and moved on.
CREATE FUNCTION reap_1(_space text, _queues text[], _worker text, _limit integer, _given bigint) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  _now bigint := instant_1(_given);
  _places tid[];
  _outcomes outcome_1[];
BEGIN
  IF _queues IS NULL THEN
    _queues := ARRAY(
      WITH RECURSIVE leased (queue) AS (
        SELECT (SELECT j.queue FROM jobs AS j WHERE j.space = _space AND j.state = 'inflight' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM jobs AS j WHERE j.space = _space AND j.state = 'inflight' AND j.queue > l.queue
                 ORDER BY j.queue LIMIT 1)
          FROM leased AS l WHERE l.queue IS NOT NULL
      )
      SELECT l.queue FROM leased AS l WHERE l.queue IS NOT NULL);
  END IF;

  IF _worker IS NULL THEN
    -- Leases that were extended are only moved on, and do not use up the limit.
    LOOP
      UPDATE jobs AS j SET check_at = j.expires_at
       WHERE j.ctid = ANY (ARRAY(
         SELECT due.row
           FROM unnest(_queues) AS q (queue)
          CROSS JOIN LATERAL (SELECT j.ctid AS row FROM jobs AS j
                               WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight'
                                 AND j.check_at <= _now AND j.expires_at > j.check_at
                               ORDER BY j.check_at LIMIT 1000 FOR UPDATE SKIP LOCKED) AS due));
      EXIT WHEN NOT FOUND;
    END LOOP;
    SELECT array_agg(due.row ORDER BY due.expires_at, due.seq) INTO _places
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row, j.expires_at, j.seq FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.check_at <= _now
                            AND j.expires_at <= _now
                          ORDER BY j.check_at LIMIT _limit FOR UPDATE SKIP LOCKED) AS due;
  ELSE
    SELECT array_agg(held.row ORDER BY held.expires_at, held.seq) INTO _places
      FROM unnest(_queues) AS q (queue)
     CROSS JOIN LATERAL (SELECT j.ctid AS row, j.expires_at, j.seq FROM jobs AS j
                          WHERE j.space = _space AND j.queue = q.queue AND j.state = 'inflight' AND j.worker = _worker
                          FOR UPDATE SKIP LOCKED) AS held;
  END IF;
  IF _places IS NULL THEN
    RETURN 0;
  END IF;

  _outcomes := ARRAY(
    SELECT expired_1(p.item::integer, p.place, j, _now)
      FROM unnest(_places[:_limit]) WITH ORDINALITY AS p (place, item) JOIN jobs AS j ON j.ctid = p.place
     ORDER BY p.item);
  PERFORM apply_1(_space, _now, _outcomes);
  RETURN cardinality(_outcomes);
END $$;
