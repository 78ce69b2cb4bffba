-- Before a COPY of jobs that are leased as they are stored, in the same transaction: the instant of the call, how long their
-- queue remembers a key, and a fence for each. No fences if the queue is paused or limited: what arrives there has to wait.
-- Nobody is told of them: there is nothing to come for.
CREATE FUNCTION leasing_1(
  _space text, _given bigint, _window bigint, _queue text, _count integer,
  OUT now bigint, OUT remembered bigint, OUT fences bigint[]
) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '30s'
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  now := instant_1(_given);
  IF EXISTS (SELECT FROM settings AS s
              WHERE s.space = _space AND s.queue = _queue
                AND (s.paused_until > now OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL)) THEN
    RETURN;
  END IF;
  remembered := coalesce((SELECT s.dedupe_window FROM settings AS s
                           WHERE s.space = _space AND s.queue = _queue AND s.type = ''), _window);
  fences := ARRAY(SELECT nextval('counter') FROM generate_series(1, _count));
END $$;
