-- Remove the row of a domain. Index: the primary key.
DELETE FROM holdfast_domains WHERE space = ? AND queue = ? AND domain = ?
