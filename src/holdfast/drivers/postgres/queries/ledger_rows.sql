-- A page of the ledger: the place of a row, then the columns of LedgerRow. Read as it stands, without the cursor's
-- judgement in every row that ledger_1 gives: a scan asks for that apart. Relies on the primary key.
SELECT xid::text::bigint, seq, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at, available_at,
       reserved_at, started_at, ended_at, ending, state, detail, error
  FROM holdfast.ledger
 WHERE space = %(space)s AND xid < %(horizon)s::text::xid8 AND (xid, seq) > (%(xid)s::text::xid8, %(seq)s)
 ORDER BY xid, seq LIMIT %(limit)s
