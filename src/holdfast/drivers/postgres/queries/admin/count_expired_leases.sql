-- The number of leases that expired before now, up to a limit. Index: jobs_leased; reads all leases.
SELECT count(*)
  FROM (SELECT 1 FROM holdfast.jobs
         WHERE space = %(space)s AND state = 'inflight'
           AND expires_at <= (SELECT holdfast.effective_now(%(now)s)) - %(expired_for)s
         LIMIT %(limit)s) AS expired
