-- The dead jobs that ended before an instant and have one of these idempotency keys (L12). :keys is [[queue, key], ...].
-- Index: the primary key of holdfast_dedupe, holdfast_ended_id.
SELECT e.id
  FROM json_each(:keys) AS given
 CROSS JOIN holdfast_dedupe AS d
    ON d.space = :space AND d.queue = json_extract(given.value, '$[0]') AND d.key = json_extract(given.value, '$[1]')
 CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = d.job_id
 WHERE e.state = 'dead' AND e.ended_at < :before
