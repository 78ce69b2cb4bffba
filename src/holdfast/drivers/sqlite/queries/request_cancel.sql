-- Ask running jobs to stop: their next heartbeat is told.
UPDATE holdfast_jobs SET cancel_requested = 1 WHERE seq IN (SELECT value FROM json_each(:jobs))
