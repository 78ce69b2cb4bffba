-- The domains whose first job was acked: the turn must be passed on.
SELECT DISTINCT queue, domain FROM holdfast_acking WHERE domain IS NOT NULL
