-- Count the jobs, rate buckets and stopped domains with an instant of the store's clock that is later than :limit.
-- Reads every live job.
SELECT (SELECT count(*) FROM holdfast_jobs
         WHERE space = :space AND (reserved_at > :limit OR enqueued_at > :limit OR failed_at > :limit))
     + (SELECT count(*) FROM holdfast_settings WHERE space = :space AND level_at > :limit)
     + (SELECT count(*) FROM holdfast_limit_keys WHERE space = :space AND level_at > :limit)
     + (SELECT count(*) FROM holdfast_domains WHERE space = :space AND (halted_at > :limit OR waiting_since > :limit))
