-- What is stored of a job beside its record. Index: holdfast_jobs_id, holdfast_ended_id, the key of holdfast_notes.
SELECT coalesce(j.parked_from, j.available_at), j.worker, j.fence, j.reserved_at, j.started_at, j.expires_at, NULL,
       j.cancel_requested, j.noted, n.progress, n.checkpoint
  FROM holdfast_jobs AS j LEFT JOIN holdfast_notes AS n ON n.space = j.space AND n.job_id = j.id
 WHERE j.space = :space AND j.id = :id
UNION ALL
SELECT e.available_at, '', NULL, NULL, NULL, NULL, e.ended_at, e.cancel_requested, e.noted, n.progress, n.checkpoint
  FROM holdfast_ended AS e LEFT JOIN holdfast_notes AS n ON n.space = e.space AND n.job_id = e.id
 WHERE e.space = :space AND e.id = :id
