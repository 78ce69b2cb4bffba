-- Ended jobs that moved on or are removed.
DELETE FROM holdfast_ended WHERE seq IN (SELECT value FROM json_each(:jobs))
