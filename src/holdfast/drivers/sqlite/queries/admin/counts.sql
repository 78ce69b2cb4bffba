-- The number of jobs per queue, type and state. Reads every job of the space once.
SELECT queue, type, CASE WHEN state = 'ready' AND available_at > :now THEN 'scheduled' ELSE state END, count(*)
  FROM holdfast_jobs WHERE space = :space GROUP BY 1, 2, 3
UNION ALL
SELECT queue, type, state, count(*) FROM holdfast_ended WHERE space = :space GROUP BY 1, 2, 3
