-- Let reserve look at the keys of a queue. A new row has the default settings. Index: the primary key.
INSERT INTO holdfast_settings (space, queue, type, keyed, {settings_columns}) VALUES (?, ?, '', 1, {settings_values})
ON CONFLICT (space, queue, type) DO UPDATE SET keyed = 1 WHERE keyed = 0
