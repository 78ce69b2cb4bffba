-- The webhooks of jobs in any state, of those that have one. :ids is a JSON list.
-- Index: holdfast_jobs_id and holdfast_ended_id.
SELECT j.id, j.webhook
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
 WHERE j.webhook IS NOT NULL
UNION ALL
SELECT e.id, e.webhook
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
 WHERE e.webhook IS NOT NULL
