-- The oldest rows of the ledger, in order, with the instants at which they were written. Index: the primary key.
SELECT seq, ended_at FROM holdfast_ledger WHERE space = :space AND seq > :trimmed ORDER BY seq LIMIT :limit
