-- Purpose: every lease in a domain, checked against the earlier leases of that domain.
-- Input: {checked_rows}, the result of audit_jobs.sql; {slack}, the seconds by which clocks of producers may differ.
-- Shape: one shuffle by (queue, domain); both windows share one sort.
WITH seen AS (
  SELECT *,
         lag(job_id) OVER in_order AS last_job,
         lag(turn_until) OVER in_order AS last_turn_until,
         lag(offset) OVER in_order AS last_offset,
         lag(reserved_at) OVER in_order AS last_reserved_at,
         row_number() OVER in_order = 1 AS is_first,
         max(ended_at) OVER earlier AS domain_held_until,
         max(arrived_at) OVER earlier AS last_arrived_at
    FROM {checked_rows}
   WHERE is_lease AND domain IS NOT NULL
  WINDOW in_order AS (PARTITION BY queue, domain ORDER BY position),
         earlier AS (PARTITION BY queue, domain ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT job_id, position, queue, domain, reserved_at, is_first, last_job, last_turn_until, domain_held_until,
       coalesce(reserved_at < domain_held_until, false) AS domain_overlap,
       -- Another job runs only after the turn of the last one has ended, and no job runs after a job that arrived
       -- later. The clocks of producers may differ from the order of their commits, so "later" means by more than the slack.
       coalesce(job_id <> last_job AND coalesce(last_turn_until > reserved_at, true), false)
         OR CASE WHEN offset IS NULL OR last_offset IS NULL
                 THEN coalesce(arrived_at + INTERVAL {slack} SECOND < last_arrived_at, false)
                 ELSE offset < last_offset AND arrived_at < last_reserved_at END AS domain_order
  FROM seen
