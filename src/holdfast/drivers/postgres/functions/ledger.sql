-- Read the ledger (L13).

-- name: find_ledger_end
-- Return the position of the last ledger row below the horizon (or of the last trimmed row), and whether rows are
-- held back by a running transaction.
--
-- Locks: none. Index: the primary key of ledger. Shape: a function for the same reason as read_ledger.
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


-- name: read_ledger
-- Return a page of the ledger after a position (NULL: from the oldest row). Every row ends with the values that
-- judge the position: how far the ledger was trimmed, the next transaction number, and whether rows are held back by
-- a running transaction. An empty page is one row with these facts and NULLs.
--
-- Locks: none. Index: the primary key of ledger.
-- Shape: a function and not a query, because the horizon must be read under an older snapshot than the rows (see
-- ledger_horizon). How far the ledger was trimmed is read under the snapshot of the rows: after a trim
-- between the two, the page would begin behind the removed rows, and the position would look valid. One round trip;
-- scans of many pages use queries/ledger/ instead.
CREATE OR REPLACE FUNCTION read_ledger(_space text, _xid bigint, _seq bigint, _limit integer)
RETURNS TABLE (
  {declared_ledger_columns}, row_xid bigint, row_seq bigint, trimmed_xid bigint, trimmed_seq bigint, next_xid bigint,
  held_back boolean
) LANGUAGE plpgsql ROWS 1000 AS $$
#variable_conflict use_column
DECLARE
  _shift bigint := (SELECT ledger_shift(o) FROM origin AS o);
  _horizon xid8 := (ledger_horizon()::text::bigint + _shift)::text::xid8;
BEGIN
  RETURN QUERY
  SELECT {l.ledger_columns}, l.row_xid, l.row_seq, trimmed.xid::text::bigint, trimmed.seq,
         pg_snapshot_xmax(pg_current_snapshot())::text::bigint + _shift,
         EXISTS (SELECT FROM ledger AS late WHERE late.space = _space AND late.xid >= _horizon)
    FROM (SELECT coalesce(max(s.trimmed_xid::text::bigint), 0)::text::xid8 AS xid, coalesce(max(s.trimmed_seq), 0) AS seq
            FROM spaces AS s WHERE s.space = _space OFFSET 0) AS trimmed
    LEFT JOIN LATERAL (
      SELECT l.xid::text::bigint AS row_xid, l.seq AS row_seq, l.*
        FROM ledger AS l
       WHERE l.space = _space AND l.xid < _horizon
         AND (l.xid, l.seq) > (coalesce(_xid::text::xid8, trimmed.xid), coalesce(_seq, trimmed.seq))
       ORDER BY l.xid, l.seq LIMIT _limit) AS l ON true
   ORDER BY l.row_xid, l.row_seq;
END $$;
