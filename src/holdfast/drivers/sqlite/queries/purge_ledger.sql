-- The ledger rows of ended jobs that are removed for good.
INSERT INTO holdfast_ledger
SELECT e.space, :written + 1 + asked.key, e.id, e.type, e.queue, e.domain, e."offset", e.attempts, NULL, '',
       e.enqueued_at, e.available_at, NULL, NULL, :now, 'purged', NULL, '', ''
  FROM json_each(:jobs) AS asked CROSS JOIN holdfast_ended AS e ON e.seq = asked.value
