-- Return a page of the ledger after a position (NULL: from the oldest row). Every row ends with the values to check
-- judge the position: how far the ledger was trimmed, the next transaction number, and whether rows are held back by
-- a running transaction. An empty page is one row with these facts and NULLs.
--
-- Locks: none. Index: the primary key of ledger.
-- Shape: a function and not a query, because the horizon must be read under an older snapshot than the rows (see
-- internal/ledger_horizon.sql). One round trip; scans of many pages use queries/ledger/ instead.
CREATE OR REPLACE FUNCTION read_ledger(_space text, _xid bigint, _seq bigint, _limit integer)
RETURNS TABLE (
  {declared_ledger_columns}, row_xid bigint, row_seq bigint, trimmed_xid bigint, trimmed_seq bigint, next_xid bigint,
  held_back boolean
) LANGUAGE plpgsql ROWS 1000 AS $$
#variable_conflict use_column
DECLARE
  _shift bigint := (SELECT ledger_shift(o) FROM origin AS o);
  _horizon xid8 := (ledger_horizon()::text::bigint + _shift)::text::xid8;
  _trimmed_xid xid8;
  _trimmed_seq bigint;
BEGIN
  SELECT s.trimmed_xid, s.trimmed_seq INTO _trimmed_xid, _trimmed_seq FROM spaces AS s WHERE s.space = _space;
  IF NOT FOUND THEN
    _trimmed_xid := '0';
    _trimmed_seq := 0;
  END IF;
  RETURN QUERY
  SELECT {l.ledger_columns}, l.row_xid, l.row_seq, _trimmed_xid::text::bigint, _trimmed_seq,
         pg_snapshot_xmax(pg_current_snapshot())::text::bigint + _shift,
         EXISTS (SELECT FROM ledger AS late WHERE late.space = _space AND late.xid >= _horizon)
    FROM (SELECT 1) AS one
    LEFT JOIN LATERAL (
      SELECT l.xid::text::bigint AS row_xid, l.seq AS row_seq, l.*
        FROM ledger AS l
       WHERE l.space = _space AND l.xid < _horizon
         AND (l.xid, l.seq) > (coalesce(_xid::text::xid8, _trimmed_xid), coalesce(_seq, _trimmed_seq))
       ORDER BY l.xid, l.seq LIMIT _limit) AS l ON true
   ORDER BY l.row_xid, l.row_seq;
END $$;
