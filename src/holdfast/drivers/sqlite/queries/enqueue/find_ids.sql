-- Which of these ids exist, in any state, with the payload to compare. :ids is a JSON list.
-- Index: holdfast_jobs_id and holdfast_ended_id, one probe each per id.
SELECT j.id, {payload}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
UNION ALL
SELECT e.id, {payload}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
