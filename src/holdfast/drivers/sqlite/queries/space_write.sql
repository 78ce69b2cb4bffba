-- The counters after a call; the clock never goes back.
INSERT INTO holdfast_spaces (space, counter, clock, ledger_written) VALUES (?, ?, ?, ?)
ON CONFLICT (space) DO UPDATE
   SET counter = excluded.counter, clock = max(clock, excluded.clock), ledger_written = excluded.ledger_written
