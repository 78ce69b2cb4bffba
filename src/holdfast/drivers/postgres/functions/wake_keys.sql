-- After the limits of each key of a queue were replaced: end the holds of its keys, and let the next reserve judge all of
-- them. The next trim_expired looks at all of them, too.
--
-- Locks: the rows of the keys; the caller has locked the settings of the queue. Index: the primary key of limit_keys,
-- key_changes_queue.
CREATE OR REPLACE FUNCTION wake_keys(_space text, _queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE limit_keys AS l SET held_until = NULL, wake_at = CASE WHEN l.parked THEN 0 END, idle_at = 0
   WHERE l.space = _space AND l.queue = _queue;
  UPDATE key_changes AS c SET held_until = NULL
   WHERE c.space = _space AND c.queue = _queue AND c.held_until IS NOT NULL;
END $$;
