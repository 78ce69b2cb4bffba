-- Limits by a key of the job: the key, and the limits of each key of a queue.
ALTER TABLE holdfast_jobs ADD COLUMN limit_key TEXT;
ALTER TABLE holdfast_ended ADD COLUMN limit_key TEXT;
ALTER TABLE holdfast_settings ADD COLUMN key_max_inflight INTEGER CHECK (key_max_inflight >= 1);
ALTER TABLE holdfast_settings ADD COLUMN key_rate REAL CHECK (key_rate > 0);
ALTER TABLE holdfast_settings ADD COLUMN key_burst INTEGER CHECK (key_burst >= 1);
