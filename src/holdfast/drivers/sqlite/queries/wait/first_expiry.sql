-- When the first lease of each of these queues expires. Index: holdfast_jobs_leased, one probe per queue.
SELECT (SELECT min(j.expires_at) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
         WHERE j.space = :space AND j.queue = given.value AND j.state = 'inflight')
  FROM json_each(:queues) AS given
