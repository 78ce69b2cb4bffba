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
