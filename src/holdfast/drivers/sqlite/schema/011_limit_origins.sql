-- Who set the limits: 'handler', 'settings' or 'operator'. NULL beside limits: a caller of configure that did not say who.
ALTER TABLE holdfast_settings ADD COLUMN limits_from TEXT;

-- Entries of the registry said this before. The limits of an entry are those that were proposed: others in the settings
-- were set later, by an operator.
WITH entries AS MATERIALIZED (
  SELECT space, CAST(value AS TEXT) AS entry
    FROM holdfast_registry
   WHERE kind = 'limits' AND json_valid(CAST(value AS TEXT))
)
UPDATE holdfast_settings AS s
   SET limits_from = json_extract(e.entry, '$.origin')
  FROM entries AS e
 WHERE s.space = e.space AND s.queue = json_extract(e.entry, '$.queue')
   AND s.type = coalesce(json_extract(e.entry, '$.type'), '')
   AND (json_extract(e.entry, '$.origin') = 'operator'
        OR (json_extract(e.entry, '$.origin') IN ('handler', 'settings')
            AND s.max_inflight IS json_extract(e.entry, '$.limits.max_inflight')
            AND s.rate IS json_extract(e.entry, '$.limits.rate')
            AND s.burst IS json_extract(e.entry, '$.limits.burst')
            AND s.key_max_inflight IS json_extract(e.entry, '$.limits.key_max_inflight')
            AND s.key_rate IS json_extract(e.entry, '$.limits.key_rate')
            AND s.key_burst IS json_extract(e.entry, '$.limits.key_burst')));

DELETE FROM holdfast_registry WHERE kind = 'limits';
