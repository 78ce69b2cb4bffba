-- Let a domain wait for an offset. Index: the primary key.
INSERT INTO holdfast_domains (space, queue, domain, waits_for, waiting_since) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, domain) DO UPDATE SET waits_for = excluded.waits_for, waiting_since = excluded.waiting_since
