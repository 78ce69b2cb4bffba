-- The settings of a queue or of a type in it. Index: the primary key.
SELECT {settings_columns} FROM holdfast_settings WHERE space = ? AND queue = ? AND type = ?
