-- Delete the cancelled jobs that insert_ended.sql has copied. Index: the primary key.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT value FROM json_each(:jobs))
