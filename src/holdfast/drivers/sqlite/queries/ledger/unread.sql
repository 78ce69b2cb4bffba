-- The jobs and instants of the rows after a position, in order, up to a limit. Index: the primary key.
SELECT job_id, ended_at FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT ?
