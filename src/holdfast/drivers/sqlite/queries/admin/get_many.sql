-- Jobs in any state. :ids is a JSON list. Index: holdfast_jobs_id and holdfast_ended_id.
SELECT {j.live_job_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
UNION ALL
SELECT {e.job_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
