-- Store the counter after a verb; the clock never moves back. Index: the primary key.
INSERT INTO holdfast_spaces (space, counter, clock) VALUES (?, ?, ?)
ON CONFLICT (space) DO UPDATE SET counter = excluded.counter, clock = max(clock, excluded.clock)
