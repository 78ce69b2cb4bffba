-- The stored values that decide about a call with a lease (model.transition.HeldJob), for jobs that have not ended.
-- :ids is a JSON list. Index: holdfast_jobs_id.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
