-- The queues whose keys reserve looks at, with their settings. There are few settings. Index: the primary key.
SELECT queue, {settings_columns} FROM holdfast_settings WHERE space = :space AND type = '' AND keyed
