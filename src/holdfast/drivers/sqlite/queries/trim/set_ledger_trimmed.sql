-- Store how far the ledger is trimmed: readers before this row get LedgerTrimmed, and numbers continue after it even if
-- no row is left. Index: the primary key.
INSERT INTO holdfast_spaces (space, counter, ledger_trimmed) VALUES (:space, :counter, :upto)
ON CONFLICT (space) DO UPDATE SET ledger_trimmed = excluded.ledger_trimmed
