-- Forget the ledger up to a row.
DELETE FROM holdfast_ledger WHERE space = :space AND seq <= :upto
