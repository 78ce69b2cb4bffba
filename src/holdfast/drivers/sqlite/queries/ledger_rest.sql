-- Where the ledger ends, and how many rows are left: fewer than ledger_mark.sql asked for. Relies on the primary key.
SELECT max(seq), count(*) FROM holdfast_ledger WHERE space = ? AND seq > ?
