-- A page of the ledger: the fields of LedgerRow, then the place of the row. Read as it stands, without the cursor's
-- judgement in every row that ledger_1 gives: a scan asks for that apart. Relies on the primary key.
SELECT l.job_id, l.type, l.queue, l.domain, l."offset", l.attempt, l.fence, l.worker,
       l.enqueued_at, l.available_at, l.reserved_at, l.started_at, l.ended_at, l.ending, l.state, l.detail, l.error, l.xid, l.seq
  FROM holdfast.ledger AS l
 WHERE l.space = %(space)s AND l.xid < %(horizon)s::text::xid8 AND (l.xid, l.seq) > (%(xid)s::text::xid8, %(seq)s)
 ORDER BY l.xid, l.seq LIMIT %(limit)s
