-- Remove a row.
DELETE FROM holdfast_registry WHERE space = ? AND kind = ? AND key = ?
