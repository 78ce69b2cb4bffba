-- The row so many rows on in the ledger, if there are as many. Numbers have gaps where a settlement was refused, so they
-- must be counted. Relies on the primary key.
SELECT seq FROM holdfast_ledger WHERE space = ? AND seq > ? ORDER BY seq LIMIT 1 OFFSET ?
