-- Write one ledger row per ack, from the job before it is moved. Index: the primary key of holdfast_jobs.
INSERT INTO holdfast_ledger (space, seq, {ledger_columns})
SELECT j.space, :written + a.item, j.id, j.type, j.queue, j.domain, j."offset", j.attempts, j.fence, j.worker,
       j.enqueued_at, j.available_at, j.reserved_at, coalesce(a.started_at, j.started_at), :now,
       'acked', 'done', a.detail, ''
  FROM holdfast_acking AS a CROSS JOIN holdfast_jobs AS j ON j.seq = a.job
