-- The checkpoints that earlier attempts of these jobs stored. Index: the primary key.
SELECT n.job_id, n.checkpoint
  FROM json_each(:ids) AS given CROSS JOIN holdfast_notes AS n ON n.space = :space AND n.job_id = given.value
