-- Report leases that expired while the store could not be reached (L7).

-- name: take_crashes_back
-- Count one crash fewer for jobs whose lease expired in an outage; :verb says that this was done. A parked job enters
-- another lane, and returns to it. :jobs is a JSON list of seqs. Index: the primary key.
UPDATE holdfast_jobs
   SET crashes = max(0, crashes - 1), last_verb = :verb,
       available_at = coalesce(parked_from, available_at), parked_from = NULL
 WHERE seq IN (SELECT value FROM json_each(:jobs))
