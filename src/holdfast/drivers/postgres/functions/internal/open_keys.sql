-- Enter the holds of keys in these queues, and judge the keys that may allow more jobs than before (unpark_jobs): those of
-- key_changes and those whose wake_at has come. At most 5,000 changes and 1,000 woken keys per queue; the next reserve
-- takes the others.
--
-- Locks: the changes, SKIP LOCKED. lock_limits has locked the settings of the queues. Index: key_changes_queue,
-- limit_keys_wake.
CREATE OR REPLACE FUNCTION open_keys(_space text, _now bigint, _queues text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _changed_queues text[];
  _changed_keys text[];
  _holds bigint[];
  _key_queues text[];
  _keys text[];
BEGIN
  WITH removed AS (
    DELETE FROM key_changes AS c
     WHERE c.ctid = ANY (ARRAY(SELECT c.ctid FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
                                 SELECT c.ctid FROM key_changes AS c WHERE c.space = _space AND c.queue = q.queue
                                  LIMIT 5000 FOR UPDATE SKIP LOCKED) AS c))
    RETURNING c.queue, c.key, c.held_until)
  SELECT array_agg(r.queue), array_agg(r.key), array_agg(r.held_until) INTO _changed_queues, _changed_keys, _holds
    FROM (SELECT queue, key, max(held_until) AS held_until FROM removed GROUP BY queue, key) AS r;

  IF EXISTS (SELECT FROM unnest(_holds) AS h (until) WHERE h.until > _now) THEN
    INSERT INTO limit_keys AS l (space, queue, key, held_until, idle_at)
    SELECT _space, c.queue, c.key, c.until, c.until
      FROM unnest(_changed_queues, _changed_keys, _holds) AS c (queue, key, until) WHERE c.until > _now
    ON CONFLICT (space, queue, key) DO UPDATE
       SET held_until = greatest(l.held_until, excluded.held_until), idle_at = greatest(l.idle_at, excluded.idle_at);
  END IF;

  SELECT array_agg(k.queue), array_agg(k.key) INTO _key_queues, _keys
    FROM (SELECT c.queue, c.key FROM unnest(_changed_queues, _changed_keys) AS c (queue, key)
          UNION
          SELECT q.queue, due.key FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
            SELECT l.key FROM limit_keys AS l WHERE l.space = _space AND l.queue = q.queue AND l.wake_at <= _now
             ORDER BY l.wake_at LIMIT 1000) AS due) AS k;
  IF _keys IS NOT NULL THEN
    PERFORM unpark_jobs(_space, _now, _key_queues, _keys, true);
  END IF;
END $$;
