-- When the first lease of each of these queues expires; for waiting. Relies on holdfast_jobs_leased.
SELECT (SELECT min(j.expires_at) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
         WHERE j.space = :space AND j.queue = asked.value AND j.state = 'inflight')
  FROM json_each(:queues) AS asked
