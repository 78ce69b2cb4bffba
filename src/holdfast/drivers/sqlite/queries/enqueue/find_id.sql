-- The job with this id, in any state, with the payload to compare: find_ids.sql for one job.
-- Index: holdfast_jobs_id and holdfast_ended_id, one probe each.
SELECT j.id, {payload} FROM holdfast_jobs AS j WHERE j.space = :space AND j.id = :id
UNION ALL
SELECT e.id, {payload} FROM holdfast_ended AS e WHERE e.space = :space AND e.id = :id
