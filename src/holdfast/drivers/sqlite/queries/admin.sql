-- What people and tools ask: counts, settings, one job.

-- name: any_open
-- Whether a job of these types is ready, scheduled or in flight in these queues: at most three probes per queue and
-- type.
-- Index: holdfast_jobs_lane, holdfast_jobs_leased, and holdfast_jobs_domain for jobs that wait for their turn.
SELECT EXISTS (
  SELECT 1 FROM json_each(:queues) AS queues CROSS JOIN json_each(:types) AS types
   WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value
                    AND j.state = 'ready' AND j.turn = 1)
      OR EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value AND j.state = 'inflight')
      OR EXISTS (SELECT 1 FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
                  WHERE j.space = :space AND j.queue = queues.value AND j.type = types.value AND j.domain IS NOT NULL))


-- name: configure
-- Replace the settings of a queue or of a type in it; the rate bucket keeps its level. Index: the primary key.
INSERT INTO holdfast_settings (space, queue, type, {settings_columns})
VALUES (?, ?, ?, {settings_values})
ON CONFLICT (space, queue, type) DO UPDATE
   SET paused_until = excluded.paused_until, max_inflight = excluded.max_inflight, rate = excluded.rate,
       burst = excluded.burst, on_exhausted = excluded.on_exhausted, dedupe_window = excluded.dedupe_window,
       held_until = excluded.held_until, probing = excluded.probing, key_max_inflight = excluded.key_max_inflight,
       key_rate = excluded.key_rate, key_burst = excluded.key_burst, limits_from = excluded.limits_from,
       gaps = excluded.gaps, gap_report_after = excluded.gap_report_after, gap_pass_after = excluded.gap_pass_after


-- name: count_dead_or_cancelled
-- The number of dead and cancelled jobs per queue and type. Index: holdfast_ended_few; reads no done job.
SELECT queue, type, state, count(*)
  FROM holdfast_ended INDEXED BY holdfast_ended_few
 WHERE space = :space AND state <> 'done' AND state IN (SELECT value FROM json_each(:states)) GROUP BY 1, 2, 3


-- name: count_done
-- The number of done jobs per queue and type. Reads every ended job of the space.
SELECT queue, type, state, count(*)
  FROM holdfast_ended INDEXED BY holdfast_ended_id
 WHERE space = :space AND state = 'done' GROUP BY 1, 2


-- name: count_expired_leases
-- The number of leases that expired before an instant, up to a limit. Index: holdfast_jobs_leased; reads all leases.
SELECT count(*)
  FROM (SELECT 1 FROM holdfast_jobs INDEXED BY holdfast_jobs_leased
         WHERE space = :space AND state = 'inflight' AND expires_at <= :before LIMIT :limit) AS expired


-- name: count_open
-- The number of ready and running jobs per queue and type, and for how long the oldest one has been available. Reads every
-- one of them, and no ended job.
SELECT queue, type, CASE WHEN state = 'ready' AND coalesce(parked_from, available_at) > :now THEN 'scheduled' ELSE state END,
       count(*), :now - max(0, min(coalesce(parked_from, available_at)))
  FROM holdfast_jobs
 WHERE space = :space AND state IN (SELECT value FROM json_each(:states)) GROUP BY 1, 2, 3


-- name: count_stray_payloads
-- The number of large payloads without a job, up to a limit. Index: holdfast_payloads_space, and two probes per payload.
SELECT count(*)
  FROM (SELECT 1 FROM holdfast_payloads AS large INDEXED BY holdfast_payloads_space
         WHERE large.space = :space
           AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.payload_seq = large.seq)
           AND NOT EXISTS (SELECT 1 FROM holdfast_ended AS e WHERE e.payload_seq = large.seq)
         LIMIT :limit) AS some


-- name: file_size
-- The size of the database file in bytes, and how much of it is unused. Reads the header of the file.
SELECT page_count * page_size, freelist_count * page_size
  FROM pragma_page_count(), pragma_page_size(), pragma_freelist_count()


-- name: inspect
-- Jobs in any state, with their leases and notes. :ids is a JSON list without repetitions. Without :payloads, neither
-- payloads, results nor notes are read. Index: holdfast_jobs_id, holdfast_ended_id, the key of holdfast_notes.
SELECT coalesce(j.parked_from, j.available_at), j.worker, j.fence, j.reserved_at, j.started_at, j.expires_at, NULL,
       j.cancel_requested, j.seq, j.noted, n.progress, n.checkpoint, {j.live_inspected_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_jobs AS j ON j.space = :space AND j.id = given.value
  LEFT JOIN holdfast_notes AS n ON :payloads AND n.space = j.space AND n.job_id = j.id
UNION ALL
SELECT e.available_at, '', NULL, NULL, NULL, NULL, e.ended_at, e.cancel_requested, e.seq, e.noted, n.progress, n.checkpoint,
       {e.inspected_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
  LEFT JOIN holdfast_notes AS n ON :payloads AND n.space = e.space AND n.job_id = e.id


-- name: settings
-- The settings of a queue or of a type in it. Index: the primary key.
SELECT {settings_columns} FROM holdfast_settings WHERE space = ? AND queue = ? AND type = ?
