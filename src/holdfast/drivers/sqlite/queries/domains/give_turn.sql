-- Give the turn to jobs whose domains have no job with the turn (L11). :jobs is a JSON list of seqs.
-- Index: the primary key.
UPDATE holdfast_jobs SET turn = 1 WHERE seq IN (SELECT value FROM json_each(:jobs))
