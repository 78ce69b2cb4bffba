-- The settings of a queue or of a type in it.
SELECT paused_until, max_inflight, rate, burst, on_exhausted, dedupe_window
  FROM holdfast_settings WHERE space = ? AND queue = ? AND type = ?
