-- Before a COPY into jobs, in the same transaction: notify listeners, and return the instant of the call and the
-- dedupe window of each lane's queue. The arrays describe lanes, with the first run_at of each.
--
-- Locks: those of notify_listeners. Index: jobs_lane, the primary key of settings.
CREATE OR REPLACE FUNCTION prepare_copy(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _queues text[],
  _types text[], _priorities integer[], _run_at bigint[], OUT now bigint, OUT windows bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  now := effective_now(_caller_now);
  IF _channel IS NOT NULL THEN
    PERFORM notify_listeners(_space, _channel, _owns_transaction, now, _queues, _types, _priorities, _run_at);
  END IF;
  windows := ARRAY(
    SELECT coalesce((SELECT s.dedupe_window FROM settings AS s
                      WHERE s.space = _space AND s.queue = a.queue AND s.type = ''), _window)
      FROM unnest(_queues) WITH ORDINALITY AS a (queue, item) ORDER BY a.item);
END $$;
