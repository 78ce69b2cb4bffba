-- The last row of the ledger and the number of rows up to it; used when mark.sql found too few. Index: the primary key.
SELECT max(seq), count(*) FROM holdfast_ledger WHERE space = ? AND seq > ?
