-- Let the rate buckets that were used later than :limit fill from now on. Index: the primary key.
UPDATE holdfast_settings SET level_at = :now WHERE space = :space AND level_at > :limit
