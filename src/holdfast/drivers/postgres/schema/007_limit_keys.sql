-- Limits by a key of the job: the key, and the limits of each key of a queue.
ALTER TABLE jobs ADD COLUMN limit_key text COLLATE "C";
ALTER TABLE ended ADD COLUMN limit_key text COLLATE "C";
ALTER TABLE settings ADD COLUMN key_max_inflight integer CHECK (key_max_inflight >= 1);
ALTER TABLE settings ADD COLUMN key_rate double precision CHECK (key_rate > 0);
ALTER TABLE settings ADD COLUMN key_burst integer CHECK (key_burst >= 1);
