-- A reserve has looked for a gap in this domain. Index: the primary key.
UPDATE holdfast_domains SET arrived = 0 WHERE space = ? AND queue = ? AND domain = ?
