-- The first and the last number of an open job, of all spaces. Index: the primary key.
SELECT (SELECT min(seq) FROM holdfast_jobs), (SELECT max(seq) FROM holdfast_jobs)
