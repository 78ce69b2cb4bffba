-- The first and the last number of an ended job, of all spaces. Index: the primary key.
SELECT (SELECT min(seq) FROM holdfast_ended), (SELECT max(seq) FROM holdfast_ended)
