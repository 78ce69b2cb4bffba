-- The notes of ended jobs that are about to be removed.
DELETE FROM holdfast_notes
 WHERE (space, job_id) IN (SELECT e.space, e.id FROM json_each(:jobs) AS asked
                            CROSS JOIN holdfast_ended AS e ON e.seq = asked.value WHERE e.noted)
