-- Ready to in flight; the attempt counts from here. :jobs are seqs; :bits holds 16 random bytes for each, in the same
-- order, and tokens are written here as model.lease.new_tokens writes them.
UPDATE holdfast_jobs
   SET state = 'inflight', attempts = attempts + 1, fence = :first + taken.key,
       token = (:first + taken.key) || '.' || lower(hex(substr(:bits, taken.key * 16 + 1, 16))),
       expires_at = :expires_at, reserved_at = :now, worker = :worker, started_at = NULL
  FROM json_each(:jobs) AS taken
 WHERE holdfast_jobs.seq = taken.value
