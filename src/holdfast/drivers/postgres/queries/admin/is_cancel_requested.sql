-- Whether a cancel was requested for one of these jobs. Index: the primary key of jobs.
SELECT EXISTS (
  SELECT FROM holdfast.jobs AS j WHERE j.space = %(space)s AND j.id = ANY (%(ids)s::text[]) AND j.cancel_requested)
