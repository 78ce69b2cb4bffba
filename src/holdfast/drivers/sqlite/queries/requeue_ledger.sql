-- The ledger rows of jobs that are made ready again. :jobs is a list of seqs; their place numbers the rows.
INSERT INTO holdfast_ledger
SELECT e.space, :written + 1 + asked.key, e.id, e.type, e.queue, e.domain, e."offset", e.attempts, NULL, '',
       e.enqueued_at, e.available_at, NULL, NULL, :now, 'requeued', 'ready', '', ''
  FROM json_each(:jobs) AS asked CROSS JOIN holdfast_ended AS e ON e.seq = asked.value
