-- Whether a job of these types is ready, scheduled or in flight in these queues: at most three probes per queue and
-- type.
-- Index: holdfast_jobs_lane, holdfast_jobs_leased, and holdfast_jobs_domain for jobs that wait for their turn.
SELECT EXISTS (
  SELECT 1 FROM json_each(:queues) AS queues CROSS JOIN json_each(:types) AS types
   WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value
                    AND j.state = 'ready' AND j.turn = 1)
      OR EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value AND j.state = 'inflight')
      OR EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value AND j.domain IS NOT NULL))
