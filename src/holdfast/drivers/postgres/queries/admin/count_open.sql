-- Ready and running jobs by queue, type and state, and for how long the oldest one has been available; a ready job whose
-- run_at is later counts as scheduled. A parked job has been available since parked_from. Reads every one of them, and
-- no ended job.
SELECT queue, type,
       CASE WHEN state = 'ready' AND coalesce(parked_from, available_at) > (SELECT holdfast.effective_now(%(now)s)) THEN 'scheduled'
            ELSE state END,
       count(*), (SELECT holdfast.effective_now(%(now)s)) - greatest(0, min(coalesce(parked_from, available_at)))
  FROM holdfast.jobs
 WHERE space = %(space)s AND state = ANY (%(states)s) AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s))
 GROUP BY 1, 2, 3
