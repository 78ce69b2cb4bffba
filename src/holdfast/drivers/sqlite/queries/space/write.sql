-- Store the counter and the latest lease instant after a verb. Index: the primary key.
INSERT INTO holdfast_spaces (space, counter, clock, ledger_trimmed) VALUES (?, ?, ?, ?)
ON CONFLICT (space) DO UPDATE SET counter = excluded.counter, clock = excluded.clock
