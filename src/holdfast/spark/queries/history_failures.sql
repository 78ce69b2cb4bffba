-- Dead letters that are the same failure, under the fingerprint that `holdfast dead groups` gives them: those that the
-- history has records of, and those that it has forgotten and only counts. Records of before {first} are forgotten soon.
WITH told AS (
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
  FROM told
 GROUP BY fingerprint, type, reason, error
