-- Purpose: one row for each queue, type and minute: arrivals, endings of leases, and percentiles of the wait before a
-- lease and of the run under it, in seconds.
-- Input: {leases}, ledger rows; {jobs}, one row for each job; {stored}, the last stored result of this query; {first},
-- the first day of which all rows are left: earlier days come from {stored}.
WITH arrived AS (
  SELECT queue, type, date_trunc('minute', coalesce(enqueued_at, created_at)) AS minute, count(*) AS arrivals
    FROM {jobs}
   WHERE coalesce(enqueued_at, created_at) IS NOT NULL
   GROUP BY ALL
),
timed AS (
  SELECT *, date_trunc('minute', ended_at) AS minute,
         greatest(unix_micros(reserved_at) - unix_micros(available_at), 0L) / 1e6D AS wait,
         greatest(unix_micros(ended_at) - unix_micros(coalesce(started_at, reserved_at)), 0L) / 1e6D AS run
    FROM {leases}
),
ended AS (
  SELECT queue, type, minute,
         count_if(fence IS NOT NULL) AS leases,
         count_if(ending = 'acked') AS acked,
         count_if(ending = 'retried' AND state = 'ready') AS retried,
         count_if(ending = 'failed') AS failed,
         count_if(ending = 'released') AS released,
         count_if(ending = 'expired') AS expired,
         count_if(ending = 'cancelled') AS cancelled,
         count_if(state = 'dead') AS dead,
         percentile_approx(wait, array(0.5D, 0.95D, 0.99D)) AS wait,
         percentile_approx(CASE WHEN fence IS NOT NULL THEN run END, array(0.5D, 0.95D, 0.99D)) AS run
    FROM timed
   GROUP BY ALL
)
SELECT queue, type, minute,
       coalesce(arrivals, 0L) AS arrivals,
       coalesce(leases, 0L) AS leases,
       coalesce(acked, 0L) AS acked,
       coalesce(retried, 0L) AS retried,
       coalesce(failed, 0L) AS failed,
       coalesce(released, 0L) AS released,
       coalesce(expired, 0L) AS expired,
       coalesce(cancelled, 0L) AS cancelled,
       coalesce(dead, 0L) AS dead,
       wait[0] AS wait_p50, wait[1] AS wait_p95, wait[2] AS wait_p99,
       run[0] AS run_p50, run[1] AS run_p95, run[2] AS run_p99,
       date_from_unix_date(CAST(unix_micros(minute) DIV 86400000000 AS INT)) AS day
  FROM arrived FULL JOIN ended USING (queue, type, minute)
 WHERE date_from_unix_date(CAST(unix_micros(minute) DIV 86400000000 AS INT)) >= DATE {first}
 UNION ALL
SELECT * FROM {stored} WHERE day < DATE {first}
