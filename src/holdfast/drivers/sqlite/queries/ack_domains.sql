-- The domains that a job has left.
SELECT DISTINCT queue, domain FROM holdfast_acking WHERE domain IS NOT NULL
