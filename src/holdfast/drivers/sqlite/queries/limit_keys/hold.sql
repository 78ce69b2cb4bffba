-- Reserve no job of a key before an instant; a longer hold stays. Index: the primary key.
INSERT INTO holdfast_limit_keys (space, queue, key, held_until) VALUES (?, ?, ?, ?)
ON CONFLICT (space, queue, key) DO UPDATE SET held_until = max(coalesce(held_until, 0), excluded.held_until)
