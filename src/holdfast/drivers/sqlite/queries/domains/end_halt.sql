-- Let a halted domain go on. Index: the primary key.
UPDATE holdfast_domains SET halted_by = NULL, halted_at = NULL WHERE space = ? AND queue = ? AND domain = ?
