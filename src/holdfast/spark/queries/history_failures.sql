-- Purpose: dead letters by failure, with the fingerprint of `holdfast dead groups`. Counts both the dead letters whose
-- records the history has, and those whose records it has forgotten.
-- Input: {jobs}, one row for each job; {stored}, the last stored result of this query; {first}, the first day that the
-- history keeps: dead letters of jobs that were created earlier count as forgotten.
WITH letters AS (
  SELECT fingerprint, type, dead_reason AS reason, error, 1L AS dead, dead_at AS first_at, dead_at AS last_at,
         array(queue) AS queues,
         CAST(date_from_unix_date(CAST(unix_micros(created_at) DIV 86400000000 AS INT)) < DATE {first} AS BIGINT)
           AS forgotten
    FROM {jobs}
   WHERE state = 'dead' AND fingerprint IS NOT NULL
   UNION ALL
  SELECT fingerprint, type, reason, error, forgotten, first_at, last_at, queues, forgotten
    FROM {stored}
   WHERE forgotten > 0
)
SELECT fingerprint, type, reason, error, sum(dead) AS dead, min(first_at) AS first_at, max(last_at) AS last_at,
       sort_array(array_distinct(flatten(collect_list(queues)))) AS queues, sum(forgotten) AS forgotten,
       date_from_unix_date(CAST(unix_micros(max(last_at)) DIV 86400000000 AS INT)) AS day
  FROM letters
 GROUP BY fingerprint, type, reason, error
