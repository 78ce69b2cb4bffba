-- Dead letters that are the same failure, under the fingerprint that `holdfast dead groups` gives them.
SELECT fingerprint, type, dead_reason AS reason, error, count(*) AS dead,
       min(dead_at) AS first_at, max(dead_at) AS last_at, sort_array(collect_set(queue)) AS queues
  FROM {jobs}
 WHERE state = 'dead' AND fingerprint IS NOT NULL
 GROUP BY ALL
