-- Take the jobs that are about to be leased from the rates of their queues and types.
--
-- Locks: none beside those of lock_limits, which the caller has called. Index: the primary key of settings; jobs by ctid.
CREATE OR REPLACE FUNCTION spend_rates(_space text, _now bigint, _queues text[], _taken tid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE settings AS s
     SET level = bucket_level(s.rate, s.burst, s.level, s.level_at, _now) - used.count * 1000000, level_at = _now
    FROM (SELECT r.queue, r.type,
                 (SELECT count(*) FROM unnest(_taken) AS t (job_ctid) JOIN jobs AS j ON j.ctid = t.job_ctid
                   WHERE j.queue = r.queue AND r.type IN ('', j.type)) AS count
            FROM settings AS r WHERE r.space = _space AND r.queue = ANY (_queues) AND r.rate IS NOT NULL) AS used
   WHERE s.space = _space AND s.queue = used.queue AND s.type = used.type AND used.count > 0;
END $$;
