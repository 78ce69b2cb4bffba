-- Empty the table for the next batch (SQLite truncates: no row is visited).
DELETE FROM holdfast_acking
