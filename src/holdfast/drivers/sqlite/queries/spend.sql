-- The rate bucket after a reserve.
UPDATE holdfast_settings SET level = ?, level_at = ? WHERE space = ? AND queue = ? AND type = ?
