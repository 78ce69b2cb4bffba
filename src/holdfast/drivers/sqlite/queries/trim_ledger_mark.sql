-- Readers behind this row are told so.
UPDATE holdfast_spaces SET ledger_trimmed = :upto WHERE space = :space
