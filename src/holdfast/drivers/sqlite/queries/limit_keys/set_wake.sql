-- Store whether a limit key has parked jobs, and when reserve must look at them. Index: the primary key.
INSERT INTO holdfast_limit_keys (space, queue, key, parked, wake_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE SET parked = excluded.parked, wake_at = excluded.wake_at
