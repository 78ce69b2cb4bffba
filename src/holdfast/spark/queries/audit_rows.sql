-- Purpose: ledger rows and job records in one frame. A record has position -1, before all ledger rows of its job, so that
-- windows over the rows of a job see its record without a join.
-- Input: {leases}, ledger rows; {jobs} and {waiting}, job records.
-- Shape: "spread" is a hash of the id, and is the first sort key. Ids begin with the time and share their first bytes, so
-- a sort by id alone would compare whole strings.
SELECT xxhash64(job_id) AS spread, job_id, position, queue, domain, offset, attempt, fence, enqueued_at, reserved_at, ended_at, ending, state,
       CAST(NULL AS INT) AS max_attempts, false AS waits
  FROM {leases}
 UNION ALL
SELECT xxhash64(job_id), job_id, -1L, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, state, max_attempts, false
  FROM {jobs}
 UNION ALL
SELECT xxhash64(job_id), job_id, -1L, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, state, max_attempts, true
  FROM {waiting}
