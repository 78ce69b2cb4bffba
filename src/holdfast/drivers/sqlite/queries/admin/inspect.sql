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
