-- Ledger rows and records of jobs in one frame: a record stands at place -1, in front of all rows of its job, so that
-- windows over a job's rows know its record without a join.
SELECT job_id, position, queue, domain, offset, attempt, fence, enqueued_at, reserved_at, ended_at, ending, state,
       CAST(NULL AS INT) AS max_attempts, false AS waits
  FROM {leases}
 UNION ALL
SELECT job_id, -1L, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, state, max_attempts, false
  FROM {jobs}
 UNION ALL
SELECT job_id, -1L, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, state, max_attempts, true
  FROM {waiting}
