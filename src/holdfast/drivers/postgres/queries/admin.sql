-- What people and tools ask: pages, counts, settings, one job.

-- name: any_open
-- Whether a job of these types is ready, scheduled or in flight in these queues.
-- Index: jobs_lane, jobs_leased (newest leases first: most older entries are of jobs that have ended), jobs_domain
-- (jobs that wait for their turn). One probe per queue, type and index.
SELECT EXISTS (
  SELECT FROM unnest(%(queues)s::text[]) AS q (queue) CROSS JOIN unnest(%(types)s::text[]) AS t (type)
   CROSS JOIN LATERAL (
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.state = 'ready' AND j.turn
      ORDER BY j.priority, j.isolated, j.available_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.state = 'inflight'
      ORDER BY j.check_at DESC LIMIT 1)
    UNION ALL
    (SELECT 1 FROM holdfast.jobs AS j
      WHERE j.space = %(space)s AND j.queue = q.queue AND j.type = t.type AND j.domain IS NOT NULL AND NOT j.turn
      ORDER BY j.domain, j."offset", j.seq LIMIT 1)) AS open)


-- name: configure
-- Replace some settings of a queue, or of a type in it (type '' is the queue); the others stay. The rate bucket keeps its
-- level. A new row gets defaults for the settings that are not given. wake_keys and wake_domains run after the row is
-- locked, in statements of their own: they see what the reserve has committed for which the lock was waited. A proposal of
-- limits changes nothing where the row has limits of a higher origin: QueueSettings.accepts in model/queue_settings.py.
INSERT INTO holdfast.settings AS s (space, queue, type, keyed, {settings_columns})
VALUES (%(space)s, %(queue)s, %(type)s, %(keyed)s, {settings_values})
ON CONFLICT (space, queue, type) DO UPDATE
   SET paused_until = CASE WHEN 'paused_until' = ANY (%(only)s) THEN excluded.paused_until ELSE s.paused_until END,
       max_inflight = CASE WHEN 'max_inflight' = ANY (%(only)s) THEN excluded.max_inflight ELSE s.max_inflight END,
       rate = CASE WHEN 'rate' = ANY (%(only)s) THEN excluded.rate ELSE s.rate END,
       burst = CASE WHEN 'burst' = ANY (%(only)s) THEN excluded.burst ELSE s.burst END,
       on_exhausted = CASE WHEN 'on_exhausted' = ANY (%(only)s) THEN excluded.on_exhausted ELSE s.on_exhausted END,
       dedupe_window = CASE WHEN 'dedupe_window' = ANY (%(only)s) THEN excluded.dedupe_window ELSE s.dedupe_window END,
       held_until = CASE WHEN 'held_until' = ANY (%(only)s) THEN excluded.held_until ELSE s.held_until END,
       probing = CASE WHEN 'probing' = ANY (%(only)s) THEN excluded.probing ELSE s.probing END,
       key_max_inflight = CASE WHEN 'key_max_inflight' = ANY (%(only)s) THEN excluded.key_max_inflight
                               ELSE s.key_max_inflight END,
       key_rate = CASE WHEN 'key_rate' = ANY (%(only)s) THEN excluded.key_rate ELSE s.key_rate END,
       key_burst = CASE WHEN 'key_burst' = ANY (%(only)s) THEN excluded.key_burst ELSE s.key_burst END,
       limits_from = CASE WHEN 'limits_from' = ANY (%(only)s) THEN excluded.limits_from ELSE s.limits_from END,
       gaps = CASE WHEN 'gaps' = ANY (%(only)s) THEN excluded.gaps ELSE s.gaps END,
       gap_report_after = CASE WHEN 'gap_report_after' = ANY (%(only)s) THEN excluded.gap_report_after
                               ELSE s.gap_report_after END,
       gap_pass_after = CASE WHEN 'gap_pass_after' = ANY (%(only)s) THEN excluded.gap_pass_after ELSE s.gap_pass_after END,
       keyed = s.keyed OR excluded.keyed
 WHERE NOT %(proposes)s OR CASE s.limits_from
         WHEN 'handler' THEN true
         WHEN 'settings' THEN excluded.limits_from = 'settings'
         WHEN 'operator' THEN false
         ELSE num_nonnulls(s.max_inflight, s.rate, s.key_max_inflight, s.key_rate) = 0
       END
RETURNING CASE WHEN %(wakes_keys)s THEN holdfast.wake_keys(s.space, s.queue) END,
          CASE WHEN %(wakes_domains)s THEN holdfast.wake_domains(s.space, s.queue) END


-- name: count_dead_or_cancelled
-- Dead and cancelled jobs by queue, type and state. Index: ended_few; reads no done job.
SELECT queue, type, state, count(*)
  FROM holdfast.ended
 WHERE space = %(space)s AND state <> 'done' AND state = ANY (%(states)s)
   AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s))
 GROUP BY 1, 2, 3


-- name: count_done
-- Done jobs by queue and type. Reads every ended job.
SELECT queue, type, state, count(*)
  FROM holdfast.ended
 WHERE space = %(space)s AND state = 'done' AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s))
 GROUP BY 1, 2, 3


-- name: count_expired_leases
-- The number of leases that expired before now, up to a limit. Index: jobs_leased; reads all leases.
SELECT count(*)
  FROM (SELECT 1 FROM holdfast.jobs
         WHERE space = %(space)s AND state = 'inflight'
           AND expires_at <= (SELECT holdfast.effective_now(%(now)s)) - %(expired_for)s
         LIMIT %(limit)s) AS expired


-- name: count_open
-- Ready and running jobs by queue, type and state, and for how long the oldest one has been available; a ready job whose
-- run_at is later counts as scheduled. A parked job has been available since parked_from. Reads every one of them, and
-- no ended job.
SELECT queue, type,
       CASE WHEN state = 'ready' AND coalesce(parked_from, available_at) > (SELECT holdfast.effective_now(%(now)s)) THEN 'scheduled'
            ELSE state END,
       count(*), (SELECT holdfast.effective_now(%(now)s)) - greatest(0, min(coalesce(parked_from, available_at)))
  FROM holdfast.jobs
 WHERE space = %(space)s AND state = ANY (%(states)s) AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s))
 GROUP BY 1, 2, 3


-- name: count_stray_payloads
-- The number of large payloads without a job, up to a limit. Shape: reads all jobs of the space, if there are large payloads.
-- EXCEPT compares sorted or hashed numbers whatever the statistics say; NOT EXISTS may compare each with each.
SELECT count(*)
  FROM (SELECT seq FROM holdfast.payloads WHERE space = %(space)s
        EXCEPT
        (SELECT payload_seq FROM holdfast.jobs WHERE space = %(space)s AND payload_seq IS NOT NULL
         UNION ALL
         SELECT payload_seq FROM holdfast.ended WHERE space = %(space)s AND payload_seq IS NOT NULL)
        LIMIT %(limit)s) AS stray


-- name: find
-- A page of jobs in the order of ids, or the reverse: one ordered read for jobs that have not ended, one for done jobs, one for dead
-- ones and one for cancelled ones, merged.
-- Index: the primary keys, and ended_few for dead and cancelled jobs. The filter is checked row by row, in %(rows)s rows of
-- each read at most; find_end returns how far the reads came.
(SELECT {live_job_columns}
   FROM (SELECT * FROM holdfast.jobs
          WHERE %(live)s AND space = %(space)s AND id {beyond} %(after)s ORDER BY id {direction} LIMIT %(rows)s) AS jobs
  WHERE state = ANY (%(states)s)
    AND {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns}
   FROM (SELECT * FROM holdfast.ended
          WHERE %(done)s AND space = %(space)s AND id {beyond} %(after)s ORDER BY id {direction} LIMIT %(rows)s) AS ended
  WHERE state = 'done'
    AND {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns}
   FROM (SELECT * FROM holdfast.ended
          WHERE %(dead)s AND space = %(space)s AND state = 'dead' AND id {beyond} %(after)s ORDER BY id {direction} LIMIT %(rows)s) AS ended
  WHERE (%(reason)s::text IS NULL OR dead_reason = %(reason)s)
    AND {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns}
   FROM (SELECT * FROM holdfast.ended
          WHERE %(cancelled)s AND space = %(space)s AND state = 'cancelled' AND id {beyond} %(after)s
          ORDER BY id {direction} LIMIT %(rows)s) AS ended
  WHERE {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
ORDER BY 1 {direction} LIMIT %(limit)s


-- name: find_end
-- The id up to which find has read: where the first of its reads ended after %(rows)s rows. NULL if none did, or only
-- behind %(last)s, the last id of a full page. Index: the primary keys and ended_few, read without their tables.
SELECT {nearest}(ends.id)
  FROM ((SELECT id FROM holdfast.jobs
          WHERE %(live)s AND space = %(space)s AND id {beyond} %(after)s AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)
        UNION ALL
        (SELECT id FROM holdfast.ended
          WHERE %(done)s AND space = %(space)s AND id {beyond} %(after)s AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)
        UNION ALL
        (SELECT id FROM holdfast.ended
          WHERE %(dead)s AND space = %(space)s AND state = 'dead' AND id {beyond} %(after)s
            AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)
        UNION ALL
        (SELECT id FROM holdfast.ended
          WHERE %(cancelled)s AND space = %(space)s AND state = 'cancelled' AND id {beyond} %(after)s
            AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)) AS ends


-- name: inspect
-- Jobs in any state, with their leases and notes. Without payloads, neither payloads, results nor notes are read.
-- Index: the primary keys of jobs, ended and notes.
SELECT coalesce(j.parked_from, j.available_at), j.worker, j.fence, j.reserved_at, j.started_at, j.expires_at, NULL::bigint, j.cancel_requested,
       j.seq, j.noted, n.progress, n.checkpoint, {j.live_inspected_columns}
  FROM holdfast.jobs AS j LEFT JOIN holdfast.notes AS n ON %(payloads)s AND n.space = j.space AND n.job_id = j.id
 WHERE j.space = %(space)s AND j.id = ANY (%(ids)s)
UNION ALL
SELECT e.available_at, '', NULL, NULL, NULL, NULL, e.ended_at, e.cancel_requested, e.seq, e.noted, n.progress, n.checkpoint,
       {e.inspected_columns}
  FROM holdfast.ended AS e LEFT JOIN holdfast.notes AS n ON %(payloads)s AND n.space = e.space AND n.job_id = e.id
 WHERE e.space = %(space)s AND e.id = ANY (%(ids)s)


-- name: is_cancel_requested
-- Whether a cancel was requested for one of these jobs. Index: the primary key of jobs.
SELECT EXISTS (
  SELECT FROM holdfast.jobs AS j WHERE j.space = %(space)s AND j.id = ANY (%(ids)s::text[]) AND j.cancel_requested)


-- name: read_to_requeue
-- Dead and cancelled jobs without their payloads and results, to see whether their rows can be read.
-- Index: the primary key.
SELECT {payloadless_columns} FROM holdfast.ended
 WHERE space = %(space)s AND id = ANY (%(ids)s) AND state <> 'done'


-- name: settings
-- The settings of a queue, or of a type in it.
SELECT {settings_columns} FROM holdfast.settings WHERE space = %(space)s AND queue = %(queue)s AND type = %(type)s


-- name: table_health
-- Live and dead rows of the hot tables, and the age of the oldest transaction of this database: vacuum cannot remove
-- rows that died after it began. Reads statistics only.
SELECT coalesce(sum(t.n_live_tup), 0)::bigint, coalesce(sum(t.n_dead_tup), 0)::bigint,
       (SELECT (extract(epoch FROM max(clock_timestamp() - a.xact_start)) * 1000000)::bigint
          FROM pg_stat_activity AS a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
           AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL))
  FROM pg_stat_all_tables AS t
 WHERE t.schemaname = %(schema)s
   AND t.relname IN ('jobs', 'arrivals', 'limit_keys', 'key_changes', 'domains', 'ended_offsets')


-- name: table_sizes
-- The bytes of each table with its indexes. Reads the catalogue and asks for the sizes of the files.
SELECT c.relname::text, pg_total_relation_size(c.oid)
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = %(schema)s AND c.relkind = 'r'
 ORDER BY 2 DESC
