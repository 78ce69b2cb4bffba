-- Delete the large payloads of ended jobs that are about to be deleted for good. :jobs is a JSON list of seqs. Index: both
-- primary keys.
DELETE FROM holdfast_payloads
 WHERE seq IN (SELECT e.payload_seq FROM json_each(:jobs) AS given
                CROSS JOIN holdfast_ended AS e ON e.seq = given.value WHERE e.payload_seq IS NOT NULL)
