-- Replace the settings of a queue or of a type in it; the rate bucket keeps its level.
INSERT INTO holdfast.settings (space, queue, type, paused_until, max_inflight, rate, burst, on_exhausted, dedupe_window)
VALUES (%(space)s, %(queue)s, %(type)s, %(paused_until)s, %(max_inflight)s, %(rate)s, %(burst)s, %(on_exhausted)s,
        %(dedupe_window)s)
ON CONFLICT (space, queue, type) DO UPDATE
   SET paused_until = excluded.paused_until, max_inflight = excluded.max_inflight, rate = excluded.rate,
       burst = excluded.burst, on_exhausted = excluded.on_exhausted, dedupe_window = excluded.dedupe_window
