-- How long an idempotency key is taken (model/unique.py). unique_for is what the job says. while_queued: the key is
-- taken only while its job is ready, and has no window.
ALTER TABLE jobs ADD COLUMN unique_for bigint CHECK (unique_for >= -1);
ALTER TABLE ended ADD COLUMN unique_for bigint;
ALTER TABLE dedupe ADD COLUMN while_queued boolean NOT NULL DEFAULT false;
