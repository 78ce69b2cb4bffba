-- Whether a lease of these queues has expired. :queues is a JSON list. Index: holdfast_jobs_leased, one probe per queue.
SELECT EXISTS (
  SELECT 1 FROM json_each(:queues) AS given
    CROSS JOIN holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
       ON j.space = :space AND j.queue = given.value AND j.state = 'inflight' AND j.expires_at <= :now)
