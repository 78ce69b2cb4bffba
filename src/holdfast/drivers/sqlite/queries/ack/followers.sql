-- The domains and the limit keys of the acked jobs: the next job of each can run.
SELECT DISTINCT queue, domain, limit_key FROM holdfast_acking WHERE domain IS NOT NULL OR limit_key IS NOT NULL
