-- Hot jobs that have ended.
DELETE FROM holdfast_jobs WHERE seq IN (SELECT value FROM json_each(:jobs))
