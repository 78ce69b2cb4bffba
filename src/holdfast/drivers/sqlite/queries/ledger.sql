-- A page of the ledger. Relies on its primary key.
SELECT seq, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at, available_at, reserved_at,
       started_at, ended_at, ending, state, detail, error
  FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT ?
