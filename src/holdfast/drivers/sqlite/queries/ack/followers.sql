-- The acked jobs that have a domain or a limit key: the next job of each can run.
SELECT item, queue, domain, "offset", limit_key FROM holdfast_acking WHERE domain IS NOT NULL OR limit_key IS NOT NULL
