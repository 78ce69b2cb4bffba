-- How long an idempotency key is taken (model/unique.py). unique_for is what the job says. while_queued: the key is
-- taken only while its job is ready, and has no window.
ALTER TABLE holdfast_jobs ADD COLUMN unique_for INTEGER CHECK (unique_for >= -1);
ALTER TABLE holdfast_ended ADD COLUMN unique_for INTEGER;
ALTER TABLE holdfast_dedupe ADD COLUMN while_queued INTEGER NOT NULL DEFAULT 0 CHECK (while_queued IN (0, 1));
