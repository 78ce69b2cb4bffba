-- Return how many more jobs of each of these keys may be leased now: `free`, at most 10000, the largest batch. `places`
-- are those that key_max_inflight leaves and `tokens` those of the rate bucket; NULL: not limited. The same arithmetic as
-- QueueSettings.allowance in model/queue_settings.py.
--
-- Locks: none; lock_limits has locked the settings of the queues. Index: the primary keys of settings and limit_keys,
-- and jobs_key_leased, of which no more than key_max_inflight entries are read.
CREATE OR REPLACE FUNCTION key_allowances(_space text, _now bigint, _queues text[], _keys text[])
RETURNS TABLE (queue text, key text, places bigint, tokens bigint, free bigint) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT a.queue, a.key, a.places, a.tokens,
         CASE WHEN a.held_until > _now THEN 0 ELSE greatest(0, least(10000, a.places, a.tokens)) END
    FROM (SELECT k.queue, k.key, l.held_until,
                 s.key_max_inflight - (
                   SELECT count(*)
                     FROM (SELECT FROM jobs AS j
                            WHERE s.key_max_inflight IS NOT NULL AND j.space = _space AND j.queue = k.queue
                              AND j.limit_key = k.key AND j.token IS NOT NULL
                            LIMIT s.key_max_inflight) AS leased) AS places,
                 CASE WHEN s.key_rate IS NOT NULL
                      THEN bucket_level(s.key_rate, s.key_burst, l.level, l.level_at, _now) / 1000000 END AS tokens
            FROM unnest(_queues, _keys) AS k (queue, key)
            LEFT JOIN LATERAL (SELECT * FROM settings AS s
                                WHERE s.space = _space AND s.queue = k.queue AND s.type = '' OFFSET 0) AS s ON true
            LEFT JOIN LATERAL (SELECT * FROM limit_keys AS l
                                WHERE l.space = _space AND l.queue = k.queue AND l.key = k.key OFFSET 0) AS l ON true
         ) AS a;
END $$;
