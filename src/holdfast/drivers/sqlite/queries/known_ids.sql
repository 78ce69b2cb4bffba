-- Which of these ids exist, hot or ended, with the payload to compare. Relies on both id indexes.
SELECT j.id, j.payload
  FROM json_each(:ids) AS asked CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = asked.value
UNION ALL
SELECT e.id, e.payload
  FROM json_each(:ids) AS asked CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = asked.value
