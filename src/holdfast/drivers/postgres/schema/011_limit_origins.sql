-- Who set the limits: 'handler', 'settings' or 'operator'. NULL beside limits: a caller of configure that did not say who.
ALTER TABLE settings ADD COLUMN limits_from text;

-- Entries of the registry said this before. The limits of an entry are those that were proposed: others in the settings
-- were set later, by an operator. An entry that cannot be read is left out.
DO $$
DECLARE
  _space text;
  _value bytea;
BEGIN
  FOR _space, _value IN SELECT space, value FROM registry WHERE kind = 'limits' LOOP
    BEGIN
      UPDATE settings AS s
         SET limits_from = e.entry ->> 'origin'
        FROM (SELECT convert_from(_value, 'UTF8')::jsonb AS entry) AS e,
             jsonb_to_record(CASE jsonb_typeof(e.entry -> 'limits') WHEN 'object' THEN e.entry -> 'limits' ELSE '{}' END)
               AS l (max_inflight integer, rate double precision, burst integer,
                     key_max_inflight integer, key_rate double precision, key_burst integer)
       WHERE s.space = _space AND s.queue = e.entry ->> 'queue' AND s.type = coalesce(e.entry ->> 'type', '')
         AND (e.entry ->> 'origin' = 'operator'
              OR (e.entry ->> 'origin' IN ('handler', 'settings')
                  AND (s.max_inflight, s.rate, s.burst, s.key_max_inflight, s.key_rate, s.key_burst)
                      IS NOT DISTINCT FROM
                      (l.max_inflight, l.rate, l.burst, l.key_max_inflight, l.key_rate, l.key_burst)));
    EXCEPTION WHEN data_exception THEN NULL;
    END;
  END LOOP;
END
$$;

DELETE FROM registry WHERE kind = 'limits';
