-- The ledger rows of ready jobs that are cancelled.
INSERT INTO holdfast_ledger
SELECT j.space, :written + 1 + asked.key, j.id, j.type, j.queue, j.domain, j."offset", j.attempts, NULL, '',
       j.enqueued_at, j.available_at, NULL, NULL, :now, 'cancelled', 'cancelled', '', ''
  FROM json_each(:jobs) AS asked CROSS JOIN holdfast_jobs AS j ON j.seq = asked.value
