-- The id up to which one call of find reads the ready and running jobs. Index: holdfast_jobs_id, without the table.
SELECT id FROM holdfast_jobs INDEXED BY holdfast_jobs_id
 WHERE space = :space AND id {beyond} :after ORDER BY id {direction} LIMIT 1 OFFSET :rows
