-- The places of jobs in the order of arrival. Index: both primary keys.
SELECT j.id, j.seq FROM holdfast.jobs AS j WHERE j.space = %(space)s AND j.id = ANY (%(ids)s)
UNION ALL
SELECT e.id, e.seq FROM holdfast.ended AS e WHERE e.space = %(space)s AND e.id = ANY (%(ids)s)
