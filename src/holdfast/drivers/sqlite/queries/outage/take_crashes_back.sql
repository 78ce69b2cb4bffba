-- Count one crash fewer for jobs whose lease expired in an outage; :verb says that this was done. :jobs is a JSON list
-- of seqs. Index: the primary key.
UPDATE holdfast_jobs SET crashes = max(0, crashes - 1), last_verb = :verb
 WHERE seq IN (SELECT value FROM json_each(:jobs))
