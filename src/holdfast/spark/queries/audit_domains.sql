-- Every lease in a domain, judged by the earlier ones of that domain.
WITH seen AS (
  SELECT *,
         lag(job_id) OVER line AS last_job,
         lag(turn_until) OVER line AS last_turn_until,
         lag(offset) OVER line AS last_offset,
         lag(reserved_at) OVER line AS last_reserved_at,
         row_number() OVER line = 1 AS is_first,
         max(ended_at) OVER earlier AS domain_held_until,
         max(arrived_at) OVER earlier AS last_arrived_at
    FROM {judged}
   WHERE is_lease AND domain IS NOT NULL
  WINDOW line AS (PARTITION BY queue, domain ORDER BY position),
         earlier AS (PARTITION BY queue, domain ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT job_id, position, queue, domain, reserved_at, is_first, last_job, last_turn_until, domain_held_until,
       coalesce(reserved_at < domain_held_until, false) AS domain_overlap,
       -- Another job only after the last one's turn; and nobody runs behind one that came later. Producers may commit
       -- in another order than their clocks tell, so "later" is by more than the slack.
       coalesce(job_id <> last_job AND coalesce(last_turn_until > reserved_at, true), false)
         OR CASE WHEN offset IS NULL OR last_offset IS NULL
                 THEN coalesce(arrived_at + INTERVAL {slack} SECOND < last_arrived_at, false)
                 ELSE offset < last_offset AND arrived_at < last_reserved_at END AS domain_order
  FROM seen
