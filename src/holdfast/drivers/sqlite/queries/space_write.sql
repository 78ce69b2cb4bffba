-- The counter after a call; the clock never goes back.
INSERT INTO holdfast_spaces (space, counter, clock) VALUES (?, ?, ?)
ON CONFLICT (space) DO UPDATE SET counter = excluded.counter, clock = max(clock, excluded.clock)
