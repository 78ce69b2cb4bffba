-- The acked jobs that have a domain.
SELECT item, queue, domain, "offset" FROM holdfast_acking WHERE domain IS NOT NULL
