-- A page of the ledger, and in every row what judges the cursor: how far it was trimmed, which transactions are not
-- over yet, and whether rows wait behind the oldest of these. Always at least one row. Relies on the primary key.
WITH facts AS MATERIALIZED (
  SELECT coalesce(t.trimmed_xid, '0'::xid8) AS trimmed_xid, coalesce(t.trimmed_seq, 0) AS trimmed_seq,
         pg_snapshot_xmin(pg_current_snapshot()) AS horizon, pg_snapshot_xmax(pg_current_snapshot()) AS next
    FROM (SELECT 1) AS one LEFT JOIN holdfast.spaces AS t ON t.space = %(space)s
), start AS MATERIALIZED (
  SELECT f.*, coalesce(%(xid)s::text::xid8, f.trimmed_xid) AS xid, coalesce(%(seq)s::bigint, f.trimmed_seq) AS seq
    FROM facts AS f
)
SELECT s.trimmed_xid::text::bigint, s.trimmed_seq, s.next::text::bigint,
       EXISTS (SELECT FROM holdfast.ledger AS l WHERE l.space = %(space)s AND l.xid >= s.horizon),
       l.*
  FROM start AS s
  LEFT JOIN LATERAL (
    SELECT l.xid::text::bigint AS row_xid, l.seq AS row_seq, l.job_id, l.type, l.queue, l.domain, l."offset", l.attempt,
           l.fence, l.worker, l.enqueued_at, l.available_at, l.reserved_at, l.started_at, l.ended_at, l.ending, l.state,
           l.detail, l.error
      FROM holdfast.ledger AS l
     WHERE l.space = %(space)s AND (l.xid, l.seq) > (s.xid, s.seq) AND l.xid < s.horizon
     ORDER BY l.xid, l.seq LIMIT %(limit)s) AS l ON true
 ORDER BY l.row_xid, l.row_seq
