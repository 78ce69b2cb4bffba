-- Flag running jobs; their next extend returns cancel_requested. :jobs is a JSON list of seqs. Index: the primary key.
UPDATE holdfast_jobs SET cancel_requested = 1 WHERE seq IN (SELECT value FROM json_each(:jobs))
