-- The payloads of jobs that due_sizes.sql found, by seq. :jobs is a JSON list of seqs. Index: the primary key.
SELECT j.seq, {payload}
  FROM json_each(:jobs) AS given CROSS JOIN holdfast_jobs AS j ON j.seq = given.value
