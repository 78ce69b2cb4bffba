-- How many of the acked jobs have a domain, an offset, a limit key.
SELECT count(domain), count("offset"), count(limit_key) FROM holdfast_acking
