-- What workers set for a type: no job before held_until, and at most one in flight while probing (a circuit breaker that is
-- open or half open). Columns of their own: a pause and limits of an operator stay as they are.
ALTER TABLE settings ADD COLUMN held_until bigint;
ALTER TABLE settings ADD COLUMN probing boolean NOT NULL DEFAULT false;
