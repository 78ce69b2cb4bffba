-- The oldest rows of the ledger, in order, with the instants at which they were written. Rows after :upto are left out
-- (NULL: none). Index: the primary key.
SELECT seq, ended_at FROM holdfast_ledger
 WHERE space = :space AND seq > :trimmed AND seq <= coalesce(:upto, 9223372036854775807) ORDER BY seq LIMIT :limit
