-- Acknowledge a batch of jobs, each named once, with registry changes, which name every entry once. An ack makes all its
-- changes, or is refused if the version of one differs. Return rows only for refused acks.
--
-- _writers has the item of each change. Locks: the rows of the jobs, sorted by id, then registry entries, then domains.
-- Index: the primary keys of jobs and registry. Shape: `ack` ends the leases, in less time than `settle` with its
-- transitions. For a refused item it gets a token that no lease has. See README.md, Stable plans.
CREATE OR REPLACE FUNCTION ack_with_writes(
  _space text, _caller_now bigint, _ids text[], _tokens text[], _started bigint[], _results bytea[], _details text[],
  _writers integer[], _kinds text[], _keys text[], _values bytea[], _versions bigint[], _ttls bigint[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _valid integer[];
  _refused integer[];
  _refused_kinds text[];
  _refused_keys text[];
BEGIN
  -- A row that changed while this statement waited for its lock is compared again.
  SELECT array_agg(l.item) INTO _valid
    FROM (SELECT a.item
            FROM (SELECT _space AS space, u.* FROM unnest(_ids, _tokens) WITH ORDINALITY AS u (id, token, item)
                   ORDER BY u.id COLLATE "C" OFFSET 0) AS a
            JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
           WHERE j.token = a.token AND j.expires_at > _now
             FOR UPDATE OF j) AS l;
  IF coalesce(cardinality(_valid), 0) < cardinality(_ids) THEN
    SELECT array_agg(w.item ORDER BY w.position), array_agg(w.kind ORDER BY w.position),
           array_agg(w.key ORDER BY w.position), array_agg(w.value ORDER BY w.position),
           array_agg(w.version ORDER BY w.position), array_agg(w.ttl ORDER BY w.position)
      INTO _writers, _kinds, _keys, _values, _versions, _ttls
      FROM unnest(_writers, _kinds, _keys, _values, _versions, _ttls) WITH ORDINALITY
           AS w (item, kind, key, value, version, ttl, position)
     WHERE (w.item IN (SELECT unnest(_valid))) IS TRUE;
  END IF;

  IF _writers IS NULL THEN
    NULL;
  ELSIF (SELECT count(DISTINCT w.item) FROM unnest(_writers) AS w (item)) = cardinality(_writers) THEN
    SELECT array_agg(_writers[r.position]), array_agg(_kinds[r.position]), array_agg(_keys[r.position])
      INTO _refused, _refused_kinds, _refused_keys
      FROM unnest(write_each(_space, _now, _kinds, _keys, _values, _versions, _ttls)) AS r (position);
  ELSE
    SELECT array_agg(r.item), array_agg(r.kind), array_agg(r.key) INTO _refused, _refused_kinds, _refused_keys
      FROM write_entries(_space, _now, _writers, _kinds, _keys, _values, _versions, _ttls) AS r;
  END IF;
  IF _refused IS NOT NULL THEN
    RETURN QUERY
    SELECT r.item, 'write refused', NULL::text, NULL::bigint, _now, r.kind, r.key
      FROM unnest(_refused, _refused_kinds, _refused_keys) AS r (item, kind, key);
    _tokens := ARRAY(SELECT CASE WHEN t.item IN (SELECT unnest(_refused)) THEN '?' ELSE t.token END
                       FROM unnest(_tokens) WITH ORDINALITY AS t (token, item) ORDER BY t.item);
  END IF;

  RETURN QUERY
  SELECT a.* FROM ack(_space, _now, _ids, _tokens, _started, _results, _details) AS a
   WHERE a.item NOT IN (SELECT unnest(coalesce(_refused, '{}')));
END $$;
