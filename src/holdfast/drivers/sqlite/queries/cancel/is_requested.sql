-- Whether a cancel was requested for one of these jobs. :ids is a JSON list. Index: holdfast_jobs_id.
SELECT EXISTS (
  SELECT 1 FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
   WHERE j.cancel_requested)
