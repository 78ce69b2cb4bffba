-- Empty the table for the next batch. SQLite truncates it without visiting rows.
DELETE FROM holdfast_settling
