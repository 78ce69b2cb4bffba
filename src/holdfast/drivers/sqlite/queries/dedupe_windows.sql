-- The queues whose keys are remembered for another time than the default.
SELECT queue, dedupe_window FROM holdfast_settings WHERE space = ? AND type = ''
