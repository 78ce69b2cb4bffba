-- The rate bucket after a reserve.
UPDATE holdfast_settings SET full_at = ? WHERE space = ? AND queue = ? AND type = ?
