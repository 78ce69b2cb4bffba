-- Before a COPY, in the same transaction: the instant of the call, and how long each queue remembers a key; the hint to
-- whoever listens is given. Lanes, and when the first job of each may run.
CREATE FUNCTION copying_1(
  _space text, _given bigint, _channel text, _alone boolean, _window bigint, _queues text[], _types text[],
  _priorities integer[], _run_at bigint[], OUT now bigint, OUT windows bigint[]
) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s'
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  now := instant_1(_given);
  IF _channel IS NOT NULL THEN
    PERFORM hint_1(_space, _channel, _alone, now, _queues, _types, _priorities, _run_at);
  END IF;
  windows := ARRAY(
    SELECT coalesce((SELECT s.dedupe_window FROM settings AS s
                      WHERE s.space = _space AND s.queue = a.queue AND s.type = ''), _window)
      FROM unnest(_queues) WITH ORDINALITY AS a (queue, item) ORDER BY a.item);
END $$;

-- After the COPY: the domains are told, and the answer is whether an id between these two has ended before. New ids grow
-- with time, so that is hardly ever so, and one probe answers for all of them; if it is, copied_1 looks at each.
CREATE FUNCTION copied_2(_space text, _least text, _most text, _queues text[], _domains text[])
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s'
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  INSERT INTO arrivals (space, queue, domain)
  SELECT _space, d.queue, d.domain FROM unnest(_queues, _domains) AS d (queue, domain);
  RETURN EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id BETWEEN _least AND _most LIMIT 1);
END $$;
