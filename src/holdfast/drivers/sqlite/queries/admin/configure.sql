-- Replace the settings of a queue or of a type in it; the rate bucket keeps its level. Index: the primary key.
INSERT INTO holdfast_settings (space, queue, type, {settings_columns})
VALUES (?, ?, ?, {settings_values})
ON CONFLICT (space, queue, type) DO UPDATE
   SET paused_until = excluded.paused_until, max_inflight = excluded.max_inflight, rate = excluded.rate,
       burst = excluded.burst, on_exhausted = excluded.on_exhausted, dedupe_window = excluded.dedupe_window,
       held_until = excluded.held_until, probing = excluded.probing, key_max_inflight = excluded.key_max_inflight,
       key_rate = excluded.key_rate, key_burst = excluded.key_burst, limits_from = excluded.limits_from,
       gaps = excluded.gaps, gap_report_after = excluded.gap_report_after, gap_pass_after = excluded.gap_pass_after
