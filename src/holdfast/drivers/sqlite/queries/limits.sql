-- The settings of these queues and of the types in them, each with what is in flight under it: counted only where a
-- limit needs it, and then there are no more than the limit. Relies on holdfast_jobs_leased.
SELECT s.queue, s.type, s.paused_until, s.max_inflight, s.rate, s.burst, s.on_exhausted, s.dedupe_window,
       s.level, s.level_at,
       CASE WHEN s.max_inflight IS NULL THEN 0 ELSE
         (SELECT count(*) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
           WHERE j.space = s.space AND j.queue = s.queue AND j.state = 'inflight' AND s.type IN ('', j.type)) END
  FROM json_each(:queues) AS asked CROSS JOIN holdfast_settings AS s ON s.space = :space AND s.queue = asked.value
