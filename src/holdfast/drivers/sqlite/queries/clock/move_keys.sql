-- Let the rates of keys that were used later than :limit fill from now on, and end the holds that last longer: nothing
-- tells whether such a hold is of the wrong clock. Index: the primary key.
UPDATE holdfast_limit_keys
   SET level_at = min(level_at, :now), held_until = CASE WHEN held_until <= :limit THEN held_until END
 WHERE space = :space AND (level_at > :limit OR held_until > :limit)
