-- Whether a job of these types waits, is scheduled or runs in these queues: a probe for each way, and each queue and type.
-- Relies on holdfast_jobs_lane, holdfast_jobs_leased and, for those that wait for their turn, holdfast_jobs_domain.
SELECT EXISTS (
  SELECT 1 FROM json_each(:queues) AS queues CROSS JOIN json_each(:types) AS types
   WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value AND j.state = 'ready' AND j.turn = 1)
      OR EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value AND j.state = 'inflight')
      OR EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value AND j.domain IS NOT NULL))
