-- Purpose: ledger rows and job records in one frame. A record has position -1, before all ledger rows of its job, so that
-- windows over the rows of a job see its record without a join.
-- Input: {leases}, ledger rows; {jobs} and {waiting}, job records.
-- Shape: "spread" is a hash of the id, and is the first sort key. Ids begin with the time and share their first bytes, so
-- a sort by id alone would compare whole strings. "read_at" is the position at which a record was read; the newest record of a
-- job is the largest struct "record".
-- "refunds" is true for an ending that gives the attempt back (laws L7, L8).
SELECT xxhash64(job_id) AS spread, job_id, position, true AS is_row, queue, domain, offset, attempt, fence, enqueued_at, reserved_at,
       ended_at, ending, state, ending = 'released' OR (ending = 'expired' AND detail = 'not begun') AS refunds,
       CAST(NULL AS INT) AS max_attempts, false AS waits,
       CAST(NULL AS STRUCT<read_at: BIGINT, state: STRING, attempts: INT, created_at: TIMESTAMP, arrival: BIGINT>) AS record
  FROM {leases}
 UNION ALL
SELECT xxhash64(job_id), job_id, -1L, false, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, max_attempts, false,
       named_struct('read_at', position, 'state', state, 'attempts', attempts, 'created_at', created_at, 'arrival', arrival)
  FROM {jobs}
 UNION ALL
SELECT xxhash64(job_id), job_id, -1L, false, queue, domain, offset, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, max_attempts, true,
       named_struct('read_at', position, 'state', state, 'attempts', attempts, 'created_at', created_at, 'arrival', arrival)
  FROM {waiting}
