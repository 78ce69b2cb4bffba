-- How far the ledger of a space was written and trimmed.
SELECT ledger_written, ledger_trimmed FROM holdfast_spaces WHERE space = ?
