-- The number of the last row of a ledger. Read from its primary key: a counter of its own would be one more page in
-- every commit.
SELECT max(seq) FROM holdfast_ledger WHERE space = ?
