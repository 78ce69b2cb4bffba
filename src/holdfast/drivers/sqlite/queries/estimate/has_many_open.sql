-- A row if the space has more open jobs than a limit. Index: holdfast_jobs_id, without the table.
SELECT 1 FROM holdfast_jobs INDEXED BY holdfast_jobs_id WHERE space = :space LIMIT 1 OFFSET :rows
