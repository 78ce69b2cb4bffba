-- The last rows of the ledger up to a position, the newest first: the fields of LedgerRow, then the number of the row.
-- Index: the primary key, read backwards.
SELECT {ledger_columns}, seq FROM holdfast_ledger WHERE space = ? AND seq <= ? ORDER BY seq DESC LIMIT ?
