-- Delete the notes of ended jobs that are about to be deleted. :jobs is a JSON list of seqs. Index: both primary keys.
DELETE FROM holdfast_notes
 WHERE (space, job_id) IN (SELECT e.space, e.id FROM json_each(:jobs) AS given
                            CROSS JOIN holdfast_ended AS e ON e.seq = given.value WHERE e.noted)
