-- How long until a job of these queues may run or a lease of theirs may have expired, in microseconds; for waiting.
-- Relies on jobs_lane, jobs_leased and arrivals_queue.
SELECT holdfast.next_due_1(%(space)s, %(queues)s, %(now)s)
