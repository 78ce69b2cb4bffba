-- The row that is a given number of rows further in the ledger, if there are as many rows. Rows must be counted: their
-- numbers have gaps where settlements were refused. Index: the primary key.
SELECT seq FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT 1 OFFSET ?
