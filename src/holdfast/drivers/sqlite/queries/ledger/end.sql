-- The number of the last row of the ledger. Index: the primary key. A counter would be one more page in every commit.
SELECT max(seq) FROM holdfast_ledger WHERE space = ?
