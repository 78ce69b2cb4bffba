-- Let a domain wait no longer. Index: the primary key.
UPDATE holdfast_domains SET waits_for = NULL, waiting_since = NULL WHERE space = ? AND queue = ? AND domain = ?
