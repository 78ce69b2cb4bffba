-- Readers behind this row are told so, and numbers go on from it even if no row is left.
INSERT INTO holdfast_spaces (space, ledger_trimmed) VALUES (:space, :upto)
ON CONFLICT (space) DO UPDATE SET ledger_trimmed = excluded.ledger_trimmed
