-- Remove jobs that have ended, with what belongs to them.

-- name: delete
-- Delete ended jobs: requeued, purged or trimmed. :jobs is a JSON list of seqs. Index: the primary key.
DELETE FROM holdfast_ended WHERE seq IN (SELECT value FROM json_each(:jobs))


-- name: delete_notes
-- Delete the notes of ended jobs that are about to be deleted. :jobs is a JSON list of seqs. Index: both primary keys.
DELETE FROM holdfast_notes
 WHERE (space, job_id) IN (SELECT e.space, e.id FROM json_each(:jobs) AS given
                            CROSS JOIN holdfast_ended AS e ON e.seq = given.value WHERE e.noted)


-- name: delete_payloads
-- Delete the large payloads of ended jobs that are about to be deleted for good. :jobs is a JSON list of seqs. Index: both
-- primary keys.
DELETE FROM holdfast_payloads
 WHERE seq IN (SELECT e.payload_seq FROM json_each(:jobs) AS given
                CROSS JOIN holdfast_ended AS e ON e.seq = given.value WHERE e.payload_seq IS NOT NULL)
