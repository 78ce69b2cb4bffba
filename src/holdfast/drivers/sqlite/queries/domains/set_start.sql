-- Let a domain wait for no offset before this one. Index: the primary key.
INSERT INTO holdfast_domains (space, queue, domain, start) VALUES (?, ?, ?, ?)
ON CONFLICT (space, queue, domain) DO UPDATE SET start = excluded.start
