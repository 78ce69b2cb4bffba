-- The settings of a queue or of a type in it.
SELECT paused_until, max_inflight, rate, burst, on_exhausted, dedupe_window
  FROM holdfast.settings WHERE space = %(space)s AND queue = %(queue)s AND type = %(type)s
