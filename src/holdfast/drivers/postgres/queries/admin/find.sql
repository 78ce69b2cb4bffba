-- A page of jobs in the order of ids, or the reverse: one ordered read for jobs that have not ended, one for done jobs, one for dead
-- ones and one for cancelled ones, merged.
-- Index: the primary keys, and ended_few for dead and cancelled jobs. The filter is checked row by row, in %(rows)s rows of
-- each read at most; find_end.sql returns how far the reads came.
(SELECT {live_job_columns}
   FROM (SELECT * FROM holdfast.jobs
          WHERE %(live)s AND space = %(space)s AND id {beyond} %(after)s ORDER BY id {direction} LIMIT %(rows)s) AS jobs
  WHERE state = ANY (%(states)s)
    AND {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns}
   FROM (SELECT * FROM holdfast.ended
          WHERE %(done)s AND space = %(space)s AND id {beyond} %(after)s ORDER BY id {direction} LIMIT %(rows)s) AS ended
  WHERE state = 'done'
    AND {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns}
   FROM (SELECT * FROM holdfast.ended
          WHERE %(dead)s AND space = %(space)s AND state = 'dead' AND id {beyond} %(after)s ORDER BY id {direction} LIMIT %(rows)s) AS ended
  WHERE (%(reason)s::text IS NULL OR dead_reason = %(reason)s)
    AND {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
UNION ALL
(SELECT {job_columns}
   FROM (SELECT * FROM holdfast.ended
          WHERE %(cancelled)s AND space = %(space)s AND state = 'cancelled' AND id {beyond} %(after)s
          ORDER BY id {direction} LIMIT %(rows)s) AS ended
  WHERE {job_filter}
  ORDER BY id {direction} LIMIT %(limit)s)
ORDER BY 1 {direction} LIMIT %(limit)s
