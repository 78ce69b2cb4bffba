-- Write the ledger rows of ready jobs that are cancelled. :jobs is a JSON list of seqs. Index: the primary key.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT j.space, :written + 1 + given.key, j.id, j.type, j.queue, j.domain, j."offset", min(j.attempts, 2147483647),
       NULL, '', j.enqueued_at, coalesce(j.parked_from, j.available_at), NULL, NULL, :now, 'cancelled', 'cancelled', '', ''
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_jobs AS j ON j.seq = given.value
