-- Store the rate bucket after a reserve. Index: the primary key.
UPDATE holdfast_settings SET level = ?, level_at = ? WHERE space = ? AND queue = ? AND type = ?
