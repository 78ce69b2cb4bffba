-- Lease ready jobs and count their attempts (L7), up to the largest count. :jobs is a JSON list of seqs; :bits holds 16 random bytes per job, in
-- the same order. The tokens are built here in the form of model.lease.make_tokens. Index: the primary key.
UPDATE holdfast_jobs
   SET state = 'inflight', attempts = attempts + (attempts < 2147483647), fence = :first + taken.key,
       token = (:first + taken.key) || '.' || lower(hex(substr(:bits, taken.key * 16 + 1, 16))),
       expires_at = :expires_at, reserved_at = :now, worker = :worker, started_at = NULL,
       prefetched = :prefetched
  FROM json_each(:jobs) AS taken
 WHERE holdfast_jobs.seq = taken.value
