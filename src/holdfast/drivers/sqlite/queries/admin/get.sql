-- A job in any state. Index: holdfast_jobs_id and holdfast_ended_id.
SELECT {live_job_columns} FROM holdfast_jobs WHERE space = :space AND id = :id
UNION ALL
SELECT {job_columns} FROM holdfast_ended WHERE space = :space AND id = :id
