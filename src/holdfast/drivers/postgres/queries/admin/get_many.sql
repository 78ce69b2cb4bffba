-- Jobs in any state. Index: both primary keys.
SELECT {live_job_columns} FROM holdfast.jobs WHERE space = %(space)s AND id = ANY (%(ids)s)
UNION ALL
SELECT {job_columns} FROM holdfast.ended WHERE space = %(space)s AND id = ANY (%(ids)s)
