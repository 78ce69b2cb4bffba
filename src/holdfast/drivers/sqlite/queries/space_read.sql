-- The counters of a space.
SELECT counter, clock, ledger_written FROM holdfast_spaces WHERE space = ?
