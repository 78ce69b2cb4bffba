-- Delete ended jobs: requeued, purged or trimmed. :jobs is a JSON list of seqs. Index: the primary key.
DELETE FROM holdfast_ended WHERE seq IN (SELECT value FROM json_each(:jobs))
