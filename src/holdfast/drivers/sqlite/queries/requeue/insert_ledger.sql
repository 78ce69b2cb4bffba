-- Write the ledger rows of jobs that become ready again. :jobs is a JSON list of seqs; the position of a seq numbers
-- its row. Index: the primary key.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT e.space, :written + 1 + given.key, e.id, e.type, e.queue, e.domain, e."offset", min(e.attempts, 2147483647),
       NULL, '', e.enqueued_at, e.available_at, NULL, NULL, :now, 'requeued', 'ready', '', ''
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_ended AS e ON e.seq = given.value
