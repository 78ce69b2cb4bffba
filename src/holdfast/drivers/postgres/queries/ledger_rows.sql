-- A page of the ledger: the place of a row, then the columns of LedgerRow. Read as it stands, without the cursor's
-- judgement in every row that ledger_1 gives: a scan asks for that apart. Relies on the primary key, in whose order the
-- table's columns are asked for by name: an unqualified xid would be the one of the answer, and be sorted.
SELECT l.xid::text::bigint, l.seq, l.job_id, l.type, l.queue, l.domain, l."offset", l.attempt, l.fence, l.worker,
       l.enqueued_at, l.available_at, l.reserved_at, l.started_at, l.ended_at, l.ending, l.state, l.detail, l.error
  FROM holdfast.ledger AS l
 WHERE l.space = %(space)s AND l.xid < %(horizon)s::text::xid8 AND (l.xid, l.seq) > (%(xid)s::text::xid8, %(seq)s)
 ORDER BY l.xid, l.seq LIMIT %(limit)s
