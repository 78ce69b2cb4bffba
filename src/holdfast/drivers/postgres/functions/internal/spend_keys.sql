-- Take those of these jobs that are in keyed queues out of the rate buckets of their keys.
--
-- Locks: none; lock_limits has locked the settings of the queues. Index: the primary keys of settings and limit_keys.
CREATE OR REPLACE FUNCTION spend_keys(_space text, _now bigint, _keyed text[], _taken tid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO limit_keys AS k (space, queue, key, level, level_at, idle_at)
  SELECT _space, n.queue, n.key, n.level, _now, key_idle_at(n.rate, n.burst, n.level, _now, n.held_until)
    FROM (SELECT u.queue, u.key, l.held_until, s.key_rate AS rate, s.key_burst AS burst,
                 bucket_level(s.key_rate, s.key_burst, l.level, l.level_at, _now) - u.count * 1000000 AS level
            FROM (SELECT j.queue, j.limit_key AS key, count(*) AS count
                    FROM unnest(_taken) AS t (job_ctid) JOIN jobs AS j ON j.ctid = t.job_ctid
                   WHERE j.limit_key IS NOT NULL AND j.queue = ANY (_keyed) GROUP BY j.queue, j.limit_key) AS u
           CROSS JOIN LATERAL (SELECT * FROM settings AS s
                                WHERE s.space = _space AND s.queue = u.queue AND s.type = '' OFFSET 0) AS s
            LEFT JOIN LATERAL (SELECT * FROM limit_keys AS l
                                WHERE l.space = _space AND l.queue = u.queue AND l.key = u.key OFFSET 0) AS l ON true
           WHERE s.key_rate IS NOT NULL) AS n
  ON CONFLICT (space, queue, key) DO UPDATE
     SET level = excluded.level, level_at = excluded.level_at, idle_at = excluded.idle_at;
END $$;
