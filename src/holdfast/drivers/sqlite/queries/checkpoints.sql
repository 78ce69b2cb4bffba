-- What earlier attempts of these jobs left.
SELECT n.job_id, n.checkpoint
  FROM json_each(:ids) AS asked CROSS JOIN holdfast_notes AS n ON n.space = :space AND n.job_id = asked.value
