-- Remove a range of ended offsets that has become part of another one. Index: the primary key.
DELETE FROM holdfast_ended_offsets WHERE space = ? AND queue = ? AND domain = ? AND first = ?
