-- The counters of a space.
SELECT counter, clock, ledger_trimmed FROM holdfast_spaces WHERE space = ?
