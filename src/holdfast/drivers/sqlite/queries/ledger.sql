-- A page of the ledger: the fields of LedgerRow, then the number of the row. Relies on its primary key.
SELECT job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at, available_at, reserved_at,
       started_at, ended_at, ending, state, detail, error, seq
  FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT ?
