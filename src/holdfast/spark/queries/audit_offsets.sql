-- Purpose: the leases of every domain that has offsets, in order, for offset_audit.py.
-- Input: {checked_rows}, the result of audit_jobs.sql.
-- Shape: one shuffle by (queue, domain), which the window needs; so all leases of a domain are in one partition.
SELECT queue, domain, job_id, position, offset, arrived_at, reserved_at
  FROM (SELECT *, count(offset) OVER (PARTITION BY queue, domain) AS offsets
          FROM {checked_rows}
         WHERE is_lease AND domain IS NOT NULL)
 WHERE offsets > 0
  SORT BY queue, domain, position
