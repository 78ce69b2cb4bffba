-- Purpose: every lease in a domain, checked against the earlier leases of that domain.
-- Input: {checked_rows}, the result of audit_jobs.sql; {slack}, the seconds by which calls of enqueue may commit in another
-- order than that of their instants: 0 if the store enqueues one call at a time.
-- The order of offsets is checked by offset_audit.py.
-- Shape: the rows come partitioned by job; then one shuffle by (queue, domain), and one sort for each of three window orders.
WITH lives AS (
  SELECT *, max(CASE WHEN opens THEN position END) OVER (PARTITION BY spread, job_id) AS last_life
    FROM {checked_rows}
   WHERE is_row
),
leases AS (
  SELECT *,
         -- The record of a job has the place of its last life in the order of arrival.
         CASE WHEN last_life IS NULL OR (position >= last_life AND read_at > last_life) THEN arrival END AS place
    FROM lives
   WHERE is_lease AND domain IS NOT NULL
),
seen AS (
  SELECT *,
         lag(job_id) OVER in_order AS last_job,
         lag(turn_until) OVER in_order AS last_turn_until,
         lag(offset) OVER in_order AS last_offset,
         row_number() OVER in_order = 1 AS is_first,
         max(ended_at) OVER earlier AS domain_held_until,
         max(CASE WHEN offset IS NULL THEN named_struct('at', arrived_at, 'place', place) END) OVER earlier AS last_arrival,
         max(CASE WHEN offset IS NULL THEN place END) OVER same_call AS last_place,
         max(CASE WHEN ending = 'acked' THEN named_struct('ended_at', ended_at, 'job_id', job_id) END) OVER same_offset AS last_ack
    FROM leases
  WINDOW in_order AS (PARTITION BY queue, domain ORDER BY position),
         earlier AS (PARTITION BY queue, domain ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
         same_call AS (PARTITION BY queue, domain, arrived_at ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
         same_offset AS (PARTITION BY queue, domain, offset ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT job_id, position, queue, domain, offset, arrived_at, reserved_at, is_first, last_job, last_offset,
       CAST(NULL AS timestamp) AS last_reserved_at, last_turn_until, domain_held_until, place, last_place, last_ack.job_id AS acked_job, last_ack.ended_at AS acked_at,
       coalesce(reserved_at < domain_held_until, false) AS domain_overlap,
       -- Another job runs only after the turn of the last one has ended, unless it has a smaller offset: such a job takes
       -- the turn of a job that waits for its retry. Of the jobs without an offset, none runs after a job that arrived
       -- later: of the jobs of one call, their places say which did; otherwise the instants of the calls. A job that halted its
       -- domain and was requeued at its old place arrived again, but has the smaller place.
       coalesce(job_id <> last_job AND coalesce(last_turn_until > reserved_at, true), false)
           AND NOT (offset IS NOT NULL AND coalesce(offset < last_offset, true))
         OR offset IS NULL AND (coalesce(place < last_place, false)
                                OR coalesce(arrived_at + INTERVAL {slack} SECOND < last_arrival.at, false)
                                   AND NOT coalesce(last_arrival.place < place, false)) AS domain_order,
       -- A job that was requeued after the ack was asked for by an operator.
       offset IS NOT NULL AND ending = 'acked' AND last_ack IS NOT NULL
         AND NOT (arrived_at > enqueued_at AND arrived_at >= last_ack.ended_at) AS domain_past
  FROM seen
