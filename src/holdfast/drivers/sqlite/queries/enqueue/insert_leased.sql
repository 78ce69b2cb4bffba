-- Insert a new job that is in flight and counts as prefetched; its first attempt is counted. Never for a job that must
-- wait first.
INSERT INTO holdfast_jobs (fence, token, expires_at, reserved_at, worker, state, prefetched,
                           space, turn, available_at, enqueued_at, {insert_columns})
VALUES (?, ?, ?, ?, ?, 'inflight', 1, ?, ?, ?, ?, {insert_values})
