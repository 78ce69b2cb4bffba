-- The numbers with which a space without a row begins: those of removed spaces. Index: the primary key.
SELECT counter, 0, ledger_trimmed FROM holdfast_spaces WHERE space = ''
