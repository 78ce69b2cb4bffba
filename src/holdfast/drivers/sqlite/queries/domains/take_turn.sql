-- Take the turn from ready jobs. A parked job returns to the place that it had: only jobs with the turn are parked.
-- :jobs is a JSON list of seqs. Index: the primary key.
UPDATE holdfast_jobs SET turn = 0, available_at = coalesce(parked_from, available_at), parked_from = NULL
 WHERE seq IN (SELECT value FROM json_each(:jobs))
