-- Hold keys: none of their jobs is reserved before these instants. The next reserve enters the holds in limit_keys.
--
-- Locks: the settings of the queues, sorted. Index: the primary key of settings.
-- Shape: the settings are updated even if the queue is keyed: the lock keeps trim_expired from making it not keyed.
CREATE OR REPLACE FUNCTION hold_keys(_space text, _queues text[], _keys text[], _until bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO settings (space, queue, keyed)
  SELECT DISTINCT _space, h.queue COLLATE "C", true FROM unnest(_queues) AS h (queue) ORDER BY 2
  ON CONFLICT (space, queue, type) DO UPDATE SET keyed = true;
  INSERT INTO key_changes (space, queue, key, held_until)
  SELECT _space, h.queue, h.key, max(h.until)
    FROM unnest(_queues, _keys, _until) AS h (queue, key, until) GROUP BY h.queue, h.key;
END $$;
