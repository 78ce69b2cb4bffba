-- The other half of moving done jobs out.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT job FROM holdfast_acking)
