-- Remove all ended offsets of a domain. Index: the primary key.
DELETE FROM holdfast_ended_offsets WHERE space = ? AND queue = ? AND domain = ?
