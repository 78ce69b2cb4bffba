-- Like find_live.sql, for one job by its seq. Index: the primary key.
SELECT j.id, j.seq, j.queue, j.domain, j."offset", j.limit_key, {j.held_columns} FROM holdfast_jobs AS j WHERE j.seq = ?
