-- The row of a space: its counters, and its removal.

-- name: count_leases
-- The number of leases of a space, up to a limit. Index: holdfast_jobs_leased.
SELECT count(*) FROM (SELECT 1 FROM holdfast_jobs INDEXED BY holdfast_jobs_leased
                       WHERE space = :space AND state = 'inflight' LIMIT :limit) AS held


-- name: is_expired
-- Whether a lease of these queues has expired. :queues is a JSON list. Index: holdfast_jobs_leased, one probe per queue.
SELECT EXISTS (
  SELECT 1 FROM json_each(:queues) AS given
    CROSS JOIN holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
       ON j.space = :space AND j.queue = given.value AND j.state = 'inflight' AND j.expires_at <= :now)


-- name: keep_numbers
-- Keep the numbers of a space that is removed in the row of the space ''. A space without a row begins with these
-- numbers (read_removed). Index: the primary key.
INSERT INTO holdfast_spaces (space, counter, ledger_trimmed) VALUES ('', :counter, :ledger)
ON CONFLICT (space) DO UPDATE
   SET counter = max(counter, excluded.counter), ledger_trimmed = max(ledger_trimmed, excluded.ledger_trimmed)


-- name: next_leased
-- The next space that has leases. Index: holdfast_jobs_leased.
SELECT min(space) FROM holdfast_jobs INDEXED BY holdfast_jobs_leased WHERE state = 'inflight' AND space > :after


-- name: read
-- The counter, the latest lease instant and the trimmed ledger position of a space. Index: the primary key.
SELECT counter, clock, ledger_trimmed FROM holdfast_spaces WHERE space = ?


-- name: read_removed
-- The numbers with which a space without a row begins: those of removed spaces. Index: the primary key.
SELECT counter, 0, ledger_trimmed FROM holdfast_spaces WHERE space = ''


-- name: tables
-- The tables that have a column `space`, each with the columns of its primary key. Reads the schema.
SELECT t.name, group_concat(c.name, ', ')
  FROM sqlite_schema AS t CROSS JOIN pragma_table_info(t.name) AS c
 WHERE t.type = 'table' AND t.name LIKE 'holdfast\_%' ESCAPE '\' AND c.pk > 0
   AND EXISTS (SELECT 1 FROM pragma_table_info(t.name) AS s WHERE s.name = 'space')
 GROUP BY t.name ORDER BY t.name


-- name: write
-- Store the counter and the latest lease instant after a verb. Index: the primary key.
INSERT INTO holdfast_spaces (space, counter, clock, ledger_trimmed) VALUES (?, ?, ?, ?)
ON CONFLICT (space) DO UPDATE SET counter = excluded.counter, clock = excluded.clock
