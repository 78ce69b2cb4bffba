-- Let the next reserve look for a gap in a domain. Index: the primary key.
INSERT INTO holdfast_domains (space, queue, domain, arrived) VALUES (?, ?, ?, 1)
ON CONFLICT (space, queue, domain) DO UPDATE SET arrived = 1
