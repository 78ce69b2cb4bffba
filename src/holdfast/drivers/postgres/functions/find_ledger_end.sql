-- Return the position of the last ledger row below the horizon (or of the last trimmed row), and whether rows are
-- held back by a running transaction.
--
-- Locks: none. Index: the primary key of ledger. Shape: a function for the same reason as read_ledger.sql.
CREATE OR REPLACE FUNCTION find_ledger_end(_space text)
RETURNS TABLE (row_xid bigint, row_seq bigint, held_back boolean) LANGUAGE plpgsql AS $$
DECLARE
  _horizon xid8 := (ledger_horizon()::text::bigint + (SELECT ledger_shift(o) FROM origin AS o))::text::xid8;
BEGIN
  RETURN QUERY
  SELECT coalesce(l.xid, s.trimmed_xid, '0')::text::bigint, coalesce(l.seq, s.trimmed_seq, 0),
         EXISTS (SELECT FROM ledger AS late WHERE late.space = _space AND late.xid >= _horizon)
    FROM (SELECT 1) AS one
    LEFT JOIN spaces AS s ON s.space = _space
    LEFT JOIN LATERAL (
      SELECT l.xid, l.seq FROM ledger AS l WHERE l.space = _space AND l.xid < _horizon
       ORDER BY l.xid DESC, l.seq DESC LIMIT 1) AS l ON true;
END $$;
