-- Purpose: every row of a job, checked against the earlier rows of that job. Each check is a boolean column.
-- Input: {job_rows}, the result of audit_rows.sql; {snapshot}, the ledger rows that were read before the waiting jobs.
-- Shape: one shuffle by job and one sort, which all windows share.
-- A life of a job begins when the job is enqueued or requeued, and when a new job gets the id of a job that was purged
-- or trimmed.
WITH neighbours AS (
  SELECT *,
         position >= 0 AS is_row,
         fence IS NOT NULL AS is_lease,
         coalesce(state IN ('done', 'dead', 'cancelled'), false) AS ends,
         CAST(fence IS NOT NULL AND ending <> 'released' AS INT) AS run,
         max(max_attempts) OVER so_far AS allowed,
         max(waits) OVER so_far AS in_store,
         max(CASE WHEN fence IS NOT NULL THEN ended_at END) OVER earlier AS held_until,
         max(fence) OVER earlier AS last_fence,
         lag(ending) OVER job AS last_ending,
         CASE WHEN lag(position) OVER job >= 0 THEN lag(state) OVER job END AS last_state,
         lag(attempt) OVER job AS last_attempt,
         lag(enqueued_at) OVER job AS last_enqueued_at,
         lag(ended_at) OVER job AS last_ended_at,
         lead(position) OVER job IS NULL AS is_last,
         lead(ending) OVER job AS next_ending,
         lead(fence) OVER job AS next_fence,
         lead(ended_at) OVER job AS next_ended_at
    FROM {job_rows}
  WINDOW job AS (PARTITION BY spread, job_id ORDER BY position),
         so_far AS (PARTITION BY spread, job_id ORDER BY position ROWS UNBOUNDED PRECEDING),
         earlier AS (PARTITION BY spread, job_id ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
lives AS (
  SELECT *,
         coalesce(last_state IN ('done', 'dead', 'cancelled'), false) AS had_ended,
         -- A requeued job keeps its enqueued_at: another enqueued_at is another job with the same id ...
         coalesce(enqueued_at <> last_enqueued_at, false) AS is_new_job,
         -- ... which is correct only if the first job was purged, or trimmed: at least a day after it ended.
         coalesce(last_ending = 'purged'
                  OR (last_state IN ('done', 'dead', 'cancelled')
                      AND enqueued_at >= last_ended_at + INTERVAL 1 DAY), false) AS was_removed,
         coalesce(ending = 'requeued' OR enqueued_at <> last_enqueued_at, false) AS opens
    FROM neighbours
),
counted AS (
  SELECT *,
         sum(run) OVER so_far AS runs_ever,
         -- For audit_domains.sql: when this life arrived, and when its turn in the domain ended. A job that was
         -- cancelled between two runs ended its turn then. NULL is a turn that has not ended.
         coalesce(last_value(CASE WHEN ending = 'requeued' THEN ended_at WHEN opens THEN enqueued_at END)
                    IGNORE NULLS OVER so_far, enqueued_at) AS arrived_at,
         CASE WHEN ends THEN ended_at
              WHEN next_ending = 'cancelled' AND next_fence IS NULL THEN next_ended_at END AS turn_until
    FROM lives
  WINDOW so_far AS (PARTITION BY spread, job_id ORDER BY position ROWS UNBOUNDED PRECEDING)
),
checked AS (
  SELECT *,
         is_row AND had_ended AND NOT opens AND ending <> 'purged' AS is_late,
         runs_ever - coalesce(max(CASE WHEN opens THEN runs_ever - run END) OVER so_far, 0) AS runs
    FROM counted
  WINDOW so_far AS (PARTITION BY spread, job_id ORDER BY position ROWS UNBOUNDED PRECEDING)
)
SELECT job_id, position, queue, domain, offset, attempt, fence, enqueued_at, reserved_at, ended_at, ending, state,
       is_row, is_lease, is_last, ends, allowed, runs, arrived_at, turn_until, held_until, last_fence, last_ending,
       last_state, last_attempt, last_ended_at,
       is_lease AND coalesce(reserved_at < held_until OR ended_at < reserved_at, false) AS overlap,
       is_lease AND coalesce(fence < last_fence, false) AS fence_fell,
       is_lease AND coalesce(fence = last_fence, false) AS ended_twice,
       coalesce(is_late AND ending = 'acked' AND last_state = 'done', false) AS acked_twice,
       coalesce(is_late, false) AS after_end,
       is_lease AND coalesce(attempt > allowed OR runs > allowed, false) AS max_attempts,
       is_lease AND NOT opens AND NOT had_ended AND coalesce(attempt <> CASE last_ending
         WHEN 'requeued' THEN 1 WHEN 'released' THEN last_attempt ELSE last_attempt + 1 END, false) AS attempts,
       is_row AND NOT CASE ending
         WHEN 'acked' THEN coalesce(state = 'done', false)
         WHEN 'failed' THEN coalesce(state = 'dead', false)
         WHEN 'cancelled' THEN coalesce(state = 'cancelled', false)
         WHEN 'requeued' THEN coalesce(state = 'ready', false)
         WHEN 'purged' THEN state IS NULL
         ELSE coalesce(state IN ('ready', 'dead'), false) END AS states,
       is_new_job AND NOT was_removed AS accepted_twice,
       -- Known before the waiting jobs were read, not ended, and not among the waiting jobs.
       is_last AND NOT ends AND NOT in_store AND coalesce(ending <> 'purged', true)
         AND coalesce(position < {snapshot}, false) AS lost
  FROM checked
