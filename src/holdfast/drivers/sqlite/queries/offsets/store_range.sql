-- Store a range of ended offsets, or the new end of one. Index: the primary key.
INSERT INTO holdfast_ended_offsets (space, queue, domain, first, last) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, queue, domain, first) DO UPDATE SET last = excluded.last
