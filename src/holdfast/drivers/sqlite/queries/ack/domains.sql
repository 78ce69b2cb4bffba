-- The acked jobs that have a domain.
SELECT queue, domain, "offset" FROM holdfast_acking WHERE domain IS NOT NULL
