-- The settings of these queues and of their types, each with the number of its leases. Leases are counted only where a
-- setting limits them, and then there are at most as many as the limit. Index: holdfast_jobs_leased.
SELECT s.queue, s.type, {s.settings_columns}, s.level, s.level_at, s.keyed,
       CASE WHEN s.max_inflight IS NULL AND NOT s.probing THEN 0 ELSE
         (SELECT count(*) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
           WHERE j.space = s.space AND j.queue = s.queue AND j.state = 'inflight' AND s.type IN ('', j.type)) END
  FROM json_each(:queues) AS given CROSS JOIN holdfast_settings AS s ON s.space = :space AND s.queue = given.value
