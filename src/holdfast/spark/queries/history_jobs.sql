-- Purpose: one row for each job: its newest record, updated by its last ledger row if that is newer. A job whose record
-- was removed before a sync could read it has the columns of its ledger rows only.
-- Input: {records} and {waiting}, job records; {leases}, ledger rows.
-- Shape: two aggregations by job and one join; max_by keeps one row of each job without a sort.
WITH record AS (
  SELECT job_id, max(position) AS read_position,
         max_by(struct(type, queue, domain, offset, limit_key, name, priority, idempotency_key, attempts,
                       max_attempts, max_crashes, created_at, run_at, state, dead_at, dead_reason, error, fingerprint), position) AS r
    FROM (SELECT * FROM {records} UNION ALL SELECT * FROM {waiting})
   GROUP BY job_id
),
ledger AS (
  SELECT job_id, max(position) AS ended_position, min(enqueued_at) AS enqueued_at, min(reserved_at) AS first_reserved_at,
         count(fence) AS leases,
         max_by(struct(type, queue, domain, offset, attempt, state, ending, ended_at), position) AS l
    FROM {leases}
   GROUP BY job_id
)
SELECT job_id,
       coalesce(r.type, l.type) AS type,
       coalesce(r.queue, l.queue) AS queue,
       coalesce(r.domain, l.domain) AS domain,
       coalesce(r.offset, l.offset) AS offset,
       CASE WHEN l.ending = 'purged' THEN 'purged' WHEN ended_position >= read_position OR r IS NULL THEN l.state
            ELSE r.state END AS state,
       CASE WHEN ended_position >= read_position OR r IS NULL THEN l.attempt ELSE r.attempts END AS attempts,
       coalesce(leases, 0L) AS leases,
       r.max_attempts, r.max_crashes, r.name, r.priority, r.limit_key, r.idempotency_key, r.created_at, r.run_at,
       enqueued_at, first_reserved_at, l.ended_at, l.ending,
       r.dead_at, r.dead_reason, r.error, r.fingerprint
  FROM record FULL JOIN ledger USING (job_id)
