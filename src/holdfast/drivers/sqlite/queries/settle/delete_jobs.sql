-- Delete the ended jobs that insert_ended.sql has copied. Index: the primary key.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT job FROM holdfast_settling WHERE state <> 'ready')
