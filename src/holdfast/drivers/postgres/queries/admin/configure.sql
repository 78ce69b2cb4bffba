-- Replace some settings of a queue, or of a type in it (type '' is the queue); the others stay. The rate bucket keeps its
-- level. A new row gets defaults for the settings that are not given. wake_keys and wake_domains run after the row is
-- locked, in statements of their own: they see what the reserve has committed for which the lock was waited. A proposal of
-- limits changes nothing where the row has limits of a higher origin: QueueSettings.accepts in model/queue_settings.py.
INSERT INTO holdfast.settings AS s (space, queue, type, keyed, {settings_columns})
VALUES (%(space)s, %(queue)s, %(type)s, %(keyed)s, {settings_values})
ON CONFLICT (space, queue, type) DO UPDATE
   SET paused_until = CASE WHEN 'paused_until' = ANY (%(only)s) THEN excluded.paused_until ELSE s.paused_until END,
       max_inflight = CASE WHEN 'max_inflight' = ANY (%(only)s) THEN excluded.max_inflight ELSE s.max_inflight END,
       rate = CASE WHEN 'rate' = ANY (%(only)s) THEN excluded.rate ELSE s.rate END,
       burst = CASE WHEN 'burst' = ANY (%(only)s) THEN excluded.burst ELSE s.burst END,
       on_exhausted = CASE WHEN 'on_exhausted' = ANY (%(only)s) THEN excluded.on_exhausted ELSE s.on_exhausted END,
       dedupe_window = CASE WHEN 'dedupe_window' = ANY (%(only)s) THEN excluded.dedupe_window ELSE s.dedupe_window END,
       held_until = CASE WHEN 'held_until' = ANY (%(only)s) THEN excluded.held_until ELSE s.held_until END,
       probing = CASE WHEN 'probing' = ANY (%(only)s) THEN excluded.probing ELSE s.probing END,
       key_max_inflight = CASE WHEN 'key_max_inflight' = ANY (%(only)s) THEN excluded.key_max_inflight
                               ELSE s.key_max_inflight END,
       key_rate = CASE WHEN 'key_rate' = ANY (%(only)s) THEN excluded.key_rate ELSE s.key_rate END,
       key_burst = CASE WHEN 'key_burst' = ANY (%(only)s) THEN excluded.key_burst ELSE s.key_burst END,
       limits_from = CASE WHEN 'limits_from' = ANY (%(only)s) THEN excluded.limits_from ELSE s.limits_from END,
       gaps = CASE WHEN 'gaps' = ANY (%(only)s) THEN excluded.gaps ELSE s.gaps END,
       gap_report_after = CASE WHEN 'gap_report_after' = ANY (%(only)s) THEN excluded.gap_report_after
                               ELSE s.gap_report_after END,
       gap_pass_after = CASE WHEN 'gap_pass_after' = ANY (%(only)s) THEN excluded.gap_pass_after ELSE s.gap_pass_after END,
       keyed = s.keyed OR excluded.keyed
 WHERE NOT %(proposes)s OR CASE s.limits_from
         WHEN 'handler' THEN true
         WHEN 'settings' THEN excluded.limits_from = 'settings'
         WHEN 'operator' THEN false
         ELSE num_nonnulls(s.max_inflight, s.rate, s.key_max_inflight, s.key_rate) = 0
       END
RETURNING CASE WHEN %(wakes_keys)s THEN holdfast.wake_keys(s.space, s.queue) END,
          CASE WHEN %(wakes_domains)s THEN holdfast.wake_domains(s.space, s.queue) END
