-- Before a COPY of jobs that are leased when they are stored, in the same transaction: return the instant of the
-- call, the dedupe window of the queue and one fence per job. fences is NULL if the queue is paused or limited: then
-- the jobs are enqueued without leases. No listener is notified, because no job becomes ready.
--
-- Locks: none. Index: the primary key of settings.
CREATE OR REPLACE FUNCTION prepare_leased_copy(
  _space text, _caller_now bigint, _window bigint, _queue text, _count integer,
  OUT now bigint, OUT dedupe_window bigint, OUT fences bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  now := effective_now(_caller_now);
  IF EXISTS (SELECT FROM settings AS s
              WHERE s.space = _space AND s.queue = _queue
                AND (greatest(s.paused_until, s.held_until) > now OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL
                     OR s.probing)) THEN
    RETURN;
  END IF;
  dedupe_window := coalesce((SELECT s.dedupe_window FROM settings AS s
                           WHERE s.space = _space AND s.queue = _queue AND s.type = ''), _window);
  fences := ARRAY(SELECT nextval('counter') FROM generate_series(1, _count));
END $$;
