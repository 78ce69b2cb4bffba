-- Store the rate bucket of a limit key. Index: the primary key.
INSERT INTO holdfast_limit_keys (space, queue, key, level, level_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE SET level = excluded.level, level_at = excluded.level_at
