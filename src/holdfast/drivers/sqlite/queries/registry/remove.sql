-- Remove an entry. Index: the primary key.
DELETE FROM holdfast_registry WHERE space = ? AND kind = ? AND key = ?
