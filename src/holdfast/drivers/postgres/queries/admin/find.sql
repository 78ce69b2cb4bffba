-- A page of jobs in the order of ids: one ordered read for jobs that have not ended, one for done jobs, one for dead
-- ones and one for cancelled ones, merged.
-- Index: the primary keys, and ended_few for dead and cancelled jobs. The filter is checked row by row.
(SELECT {live_job_columns} FROM holdfast.jobs
  WHERE %(live)s AND space = %(space)s AND id > %(after)s AND state = ANY (%(states)s) AND %(reason)s::text IS NULL
    AND {job_filter}
  ORDER BY id LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns} FROM holdfast.ended
  WHERE %(done)s AND space = %(space)s AND state = 'done' AND id > %(after)s AND %(reason)s::text IS NULL
    AND {job_filter}
  ORDER BY id LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns} FROM holdfast.ended
  WHERE %(dead)s AND space = %(space)s AND state = 'dead' AND id > %(after)s
    AND (%(reason)s::text IS NULL OR dead_reason = %(reason)s)
    AND {job_filter}
  ORDER BY id LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns} FROM holdfast.ended
  WHERE %(cancelled)s AND space = %(space)s AND state = 'cancelled' AND id > %(after)s AND %(reason)s::text IS NULL
    AND {job_filter}
  ORDER BY id LIMIT %(limit)s)
ORDER BY 1 LIMIT %(limit)s
