-- Ledger rows and records of jobs in one frame: a record stands at place -1, in front of all rows of its job, so that
-- windows over a job's rows know its record without a join. Rows are spread and sorted by a hash of their job first: ids
-- that begin with the time have the same first bytes, and Spark would compare them whole.
SELECT xxhash64(job_id) AS spread, job_id, position, queue, domain, offset, attempt, fence, enqueued_at, reserved_at, ended_at, ending, state,
       CAST(NULL AS INT) AS max_attempts, false AS waits
  FROM {leases}
 UNION ALL
SELECT xxhash64(job_id), job_id, -1L, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, state, max_attempts, false
  FROM {jobs}
 UNION ALL
SELECT xxhash64(job_id), job_id, -1L, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, state, max_attempts, true
  FROM {waiting}
