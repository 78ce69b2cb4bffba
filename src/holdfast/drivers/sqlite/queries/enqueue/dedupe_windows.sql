-- How long each queue remembers keys; queues without settings use the default. Index: the primary key.
SELECT queue, dedupe_window FROM holdfast_settings WHERE space = ? AND type = ''
