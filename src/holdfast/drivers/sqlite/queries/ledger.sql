-- Pages of the ledger (L13).

-- name: end
-- The number of the last row of the ledger. Index: the primary key. A counter would be one more page in every commit.
SELECT max(seq) FROM holdfast_ledger WHERE space = ?


-- name: mark
-- The row that is a given number of rows further in the ledger, if there are as many rows. Rows must be counted: their
-- numbers have gaps where settlements were refused. Index: the primary key.
SELECT seq FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT 1 OFFSET ?


-- name: page
-- A page of the ledger: the fields of LedgerRow, then the number of the row. Index: the primary key.
SELECT {ledger_columns}, seq FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT ?


-- name: rest
-- The last row of the ledger and the number of rows up to it; used when mark found too few. Index: the primary key.
SELECT max(seq), count(*) FROM holdfast_ledger WHERE space = ? AND seq > ?


-- name: tail
-- The last rows of the ledger up to a position, the newest first: the fields of LedgerRow, then the number of the row.
-- Index: the primary key, read backwards.
SELECT {ledger_columns}, seq FROM holdfast_ledger WHERE space = ? AND seq <= ? ORDER BY seq DESC LIMIT ?


-- name: unread
-- The jobs and instants of the rows after a position, in order, up to a limit. Index: the primary key.
SELECT job_id, ended_at FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT ?
