-- Give a job an id that every verb accepts. Index: the primary key.
UPDATE holdfast_jobs SET id = ? WHERE seq = ?
