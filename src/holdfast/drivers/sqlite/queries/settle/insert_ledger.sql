-- Write one ledger row per lease that ends, from the job before it changes. Index: the primary key of holdfast_jobs.
-- A ledger counts attempts in 32 bits: min is for rows that somebody else has changed.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT :space, :written + s.item, j.id, j.type, j.queue, j.domain, j."offset", min(j.attempts, 2147483647),
       j.fence, j.worker, j.enqueued_at, j.available_at, j.reserved_at, coalesce(s.started_at, j.started_at), :now,
       s.ending, s.state, s.detail, s.error
  FROM holdfast_settling AS s CROSS JOIN holdfast_jobs AS j ON j.seq = s.job
