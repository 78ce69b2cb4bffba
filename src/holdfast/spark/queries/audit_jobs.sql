-- Purpose: every row of a job, checked against the earlier rows of that job. Each check is a boolean column.
-- Input: {job_rows}, the result of audit_rows.sql; {snapshot}, the ledger rows that were read before the waiting jobs;
-- {since}, the instant before which ledger rows may be missing, or NULL.
-- Shape: one shuffle by job and one sort, which all windows share.
-- A life of a job begins when the job is enqueued or requeued, and when a new job gets the id of a job that was purged
-- or trimmed.
WITH neighbours AS (
  SELECT *,
         fence IS NOT NULL AS is_lease,
         coalesce(state IN ('done', 'dead', 'cancelled'), false) AS ends,
         CAST(fence IS NOT NULL AND NOT refunds AS INT) AS run,
         -- Whether the history has every row of this job.
         {since} IS NULL OR coalesce(enqueued_at >= {since}, false) AS is_whole,
         max(max_attempts) OVER so_far AS allowed,
         max(waits) OVER so_far AS in_store,
         max(record) OVER so_far AS newest,
         max(CASE WHEN fence IS NOT NULL THEN ended_at END) OVER earlier AS held_until,
         max(fence) OVER earlier AS last_fence,
         coalesce(lag(is_row) OVER job, false) AS has_last,
         lag(ending) OVER job AS last_ending,
         lag(state) OVER job AS last_state,
         lag(attempt) OVER job AS last_attempt,
         lag(refunds) OVER job AS last_refunds,
         lag(enqueued_at) OVER job AS last_enqueued_at,
         lag(ended_at) OVER job AS last_ended_at,
         lead(position) OVER job IS NULL AS is_last,
         lead(ending) OVER job AS next_ending,
         lead(fence) OVER job AS next_fence,
         lead(ended_at) OVER job AS next_ended_at
    FROM {job_rows}
  WINDOW job AS (PARTITION BY spread, job_id ORDER BY is_row, position),
         so_far AS (PARTITION BY spread, job_id ORDER BY is_row, position ROWS UNBOUNDED PRECEDING),
         earlier AS (PARTITION BY spread, job_id ORDER BY is_row, position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
lives AS (
  SELECT *,
         has_last AND (last_ending = 'purged' OR coalesce(last_state IN ('done', 'dead', 'cancelled'), false)) AS had_ended,
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
         -- The attempts that were used before this row, NULL if unknown.
         CASE WHEN NOT has_last THEN CASE WHEN is_whole THEN 0 END
              WHEN is_new_job OR last_ending = 'requeued' THEN 0
              ELSE last_attempt - CAST(last_refunds AS INT) END AS attempts_before,
         -- For audit_domains.sql: when this life arrived, and when its turn in the domain ended. A job that was
         -- cancelled between two runs ended its turn then. NULL is a turn that has not ended.
         coalesce(last_value(CASE WHEN ending = 'requeued' THEN ended_at WHEN opens THEN enqueued_at END)
                    IGNORE NULLS OVER so_far, enqueued_at) AS arrived_at,
         CASE WHEN ends THEN ended_at
              WHEN next_ending = 'cancelled' AND next_fence IS NULL THEN next_ended_at END AS turn_until,
         -- For the last row of a job: whether its newest record was read after that row and belongs to the same job. If
         -- the job has no row, and rows may be missing, its record proves nothing.
         is_last AND coalesce(newest.read_at > position, false)
           AND CASE WHEN is_row THEN coalesce(ending <> 'purged' AND NOT (ends AND newest.created_at >= ended_at), true)
                    ELSE {since} IS NULL OR newest.created_at >= {since} + INTERVAL 1 HOUR END AS is_known,
         CASE WHEN NOT is_row OR ending = 'requeued' THEN 0 ELSE attempt - CAST(refunds AS INT) END
           + CAST(coalesce(newest.state = 'inflight', false) AS INT) AS attempts_after
    FROM lives
  WINDOW so_far AS (PARTITION BY spread, job_id ORDER BY is_row, position ROWS UNBOUNDED PRECEDING)
),
checked AS (
  SELECT *,
         is_row AND had_ended AND NOT opens AND ending <> 'purged' AS is_late,
         runs_ever - coalesce(max(CASE WHEN opens THEN runs_ever - run END) OVER so_far, 0) AS runs
    FROM counted
  WINDOW so_far AS (PARTITION BY spread, job_id ORDER BY is_row, position ROWS UNBOUNDED PRECEDING)
)
SELECT spread, job_id, position, queue, domain, offset, attempt, fence, enqueued_at, reserved_at, ended_at, ending, state,
       is_row, is_lease, is_last, ends, allowed, runs, arrived_at, turn_until, held_until, last_fence, last_ending,
       last_state, last_attempt, last_ended_at, attempts_before, opens, waits,
       newest.state AS record_state, newest.attempts AS record_attempts, newest.read_at, newest.arrival,
       CASE WHEN ending = 'purged' THEN 'purged'
            WHEN ends THEN state
            WHEN NOT is_row AND newest.state IN ('done', 'dead', 'cancelled') THEN newest.state
            ELSE 'waiting' END AS job_state,
       is_lease AND coalesce(reserved_at < held_until OR ended_at < reserved_at, false) AS overlap,
       is_lease AND coalesce(fence < last_fence, false) AS fence_fell,
       is_lease AND coalesce(fence = last_fence, false) AS ended_twice,
       coalesce(is_late AND ending = 'acked' AND last_state = 'done', false) AS acked_twice,
       coalesce(is_late, false) AS after_end,
       is_lease AND coalesce(attempt > allowed OR runs > allowed, false) AS max_attempts,
       -- A cancelled attempt may have been given back: the ledger does not say so.
       is_row AND NOT is_late AND coalesce(
         attempt <> attempts_before + CAST(is_lease AS INT)
         AND NOT (NOT is_lease AND last_ending = 'cancelled' AND attempt = last_attempt - 1), false) AS attempts,
       is_row AND NOT CASE ending
         WHEN 'acked' THEN is_lease AND coalesce(state = 'done', false)
         WHEN 'failed' THEN is_lease AND coalesce(state = 'dead', false)
         WHEN 'cancelled' THEN coalesce(state = 'cancelled', false)
         WHEN 'requeued' THEN NOT is_lease AND coalesce(state = 'ready', false)
                          AND CASE WHEN has_last THEN coalesce(last_state IN ('dead', 'cancelled'), false) ELSE NOT is_whole END
         WHEN 'purged' THEN NOT is_lease AND state IS NULL AND CASE WHEN has_last THEN last_state IS NOT NULL AND had_ended ELSE NOT is_whole END
         ELSE is_lease AND coalesce(state IN ('ready', 'dead'), false) END AS states,
       is_new_job AND NOT was_removed AS accepted_twice,
       is_known AND (CASE WHEN ends THEN newest.state <> state ELSE newest.state IN ('done', 'dead', 'cancelled') END
                     OR (newest.attempts <> attempts_after
                         AND NOT (ending <=> 'cancelled' AND newest.attempts = attempts_after - 1))) AS records,
       -- Known before the waiting jobs were read, not ended, and not among the waiting jobs.
       is_last AND NOT ends AND NOT in_store AND coalesce(ending <> 'purged', true)
         AND NOT coalesce(newest.read_at > position AND newest.state IN ('done', 'dead', 'cancelled'), false)
         AND coalesce(position < {snapshot}, false) AS lost
  FROM checked
