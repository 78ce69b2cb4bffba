-- Delete the ledger up to a row. Index: the primary key.
DELETE FROM holdfast_ledger WHERE space = :space AND seq <= :upto
