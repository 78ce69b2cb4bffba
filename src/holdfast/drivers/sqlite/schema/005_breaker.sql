-- What workers set for a type: no job before held_until, and at most one in flight while probing (a circuit breaker that is
-- open or half open). Columns of their own: a pause and limits of an operator stay as they are.
ALTER TABLE holdfast_settings ADD COLUMN held_until INTEGER;
ALTER TABLE holdfast_settings ADD COLUMN probing INTEGER NOT NULL DEFAULT 0 CHECK (probing IN (0, 1));
