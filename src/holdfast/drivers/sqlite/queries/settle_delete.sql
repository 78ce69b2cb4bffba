-- The other half of moving ended jobs out.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT job FROM holdfast_settling WHERE state <> 'ready')
