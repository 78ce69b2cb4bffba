-- The limit keys of the acked jobs.
SELECT DISTINCT queue, limit_key FROM holdfast_acking WHERE limit_key IS NOT NULL
