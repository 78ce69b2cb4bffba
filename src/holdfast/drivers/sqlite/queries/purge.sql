-- Remove ended jobs by id.

-- name: find_late
-- The ended jobs that ended at or after an instant. :ids is a JSON list. Index: holdfast_ended_id.
SELECT e.id
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
 WHERE e.ended_at >= :since


-- name: insert_ledger
-- Write the ledger rows of ended jobs that are removed. :jobs is a JSON list of seqs. Index: the primary key.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT e.space, :written + 1 + given.key, e.id, e.type, e.queue, e.domain, e."offset", min(e.attempts, 2147483647),
       NULL, '', e.enqueued_at, e.available_at, NULL, NULL, :now, 'purged', NULL, '', ''
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_ended AS e ON e.seq = given.value
