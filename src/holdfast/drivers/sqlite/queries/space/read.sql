-- The counter, the latest lease instant and the trimmed ledger position of a space. Index: the primary key.
SELECT counter, clock, ledger_trimmed FROM holdfast_spaces WHERE space = ?
