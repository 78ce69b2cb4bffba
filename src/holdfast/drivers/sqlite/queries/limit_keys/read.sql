-- What is stored of a limit key, and how many of its jobs are in flight. Index: the primary key,
-- holdfast_jobs_key_leased.
SELECT k.level, k.level_at, k.held_until,
       (SELECT count(*) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_key_leased
         WHERE j.space = :space AND j.queue = :queue AND j.limit_key = :key AND j.state = 'inflight')
  FROM (SELECT 1) AS given LEFT JOIN holdfast_limit_keys AS k ON k.space = :space AND k.queue = :queue AND k.key = :key
