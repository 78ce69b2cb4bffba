-- A page of the ledger: the fields of LedgerRow, then the number of the row. Index: the primary key.
SELECT {ledger_columns}, seq FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT ?
