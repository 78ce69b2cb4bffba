-- How far the oldest rows of the ledger reach that are old enough, in order, at most :limit of them.
SELECT seq, ended_at FROM holdfast_ledger WHERE space = :space AND seq > :trimmed ORDER BY seq LIMIT :limit
