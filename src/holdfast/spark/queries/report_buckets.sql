-- Purpose: a history in equal steps of time: arrivals, endings, wait and run percentiles, and busy slots of each step.
-- Input: {leases}, ledger rows; {jobs}, one row for each job; {start} and {step} in microseconds; {last}, the number of
-- the last step. Steps without any event have no row.
-- A job that has not run has only the time of its producer's clock, which may be wrong: a time outside the history is
-- counted in the nearest step.
WITH arrived AS (
  SELECT greatest(0L, least({last}, (unix_micros(coalesce(enqueued_at, created_at)) - {start}) DIV {step})) AS bucket,
         count(*) AS arrivals
    FROM {jobs}
   WHERE coalesce(enqueued_at, created_at) IS NOT NULL
   GROUP BY bucket
),
ended AS (
  SELECT (unix_micros(ended_at) - {start}) DIV {step} AS bucket,
         count_if(ending = 'acked') AS acked,
         count_if(ending = 'retried' AND state = 'ready') AS retried,
         count_if(ending = 'expired' AND state = 'ready') AS expired,
         count_if(ending = 'released') AS released,
         count_if(state = 'dead') AS dead,
         count_if(ending <> 'purged' AND state IN ('done', 'dead', 'cancelled')) AS finished,
         count_if(ending = 'requeued') AS requeued,
         count(DISTINCT CASE WHEN fence IS NOT NULL THEN worker END) AS workers,
         sum(CASE WHEN fence IS NOT NULL THEN unix_micros(ended_at) - unix_micros(reserved_at) END) / {step} AS busy,
         percentile_approx(greatest(unix_micros(reserved_at) - unix_micros(available_at), 0L) / 1e6D,
                           array(0.5D, 0.95D, 0.99D)) AS wait,
         percentile_approx(CASE WHEN fence IS NOT NULL
                           THEN greatest(unix_micros(ended_at) - unix_micros(coalesce(started_at, reserved_at)), 0L)
                             / 1e6D END, array(0.5D, 0.95D, 0.99D)) AS run
    FROM {leases}
   GROUP BY bucket
)
SELECT CAST(bucket AS INT) AS bucket, coalesce(arrivals, 0L) AS arrivals, coalesce(acked, 0L) AS acked,
       coalesce(retried, 0L) AS retried, coalesce(expired, 0L) AS expired, coalesce(released, 0L) AS released,
       coalesce(dead, 0L) AS dead, coalesce(finished, 0L) AS finished, coalesce(requeued, 0L) AS requeued,
       coalesce(workers, 0L) AS workers, CAST(coalesce(busy, 0) AS DOUBLE) AS busy, wait, run
  FROM arrived FULL JOIN ended USING (bucket)
 ORDER BY bucket
