-- Make registry changes and store new jobs: both, or neither if the version of a change differs. Then the only row has
-- item 0, and the kind and key of the first such change. Otherwise the rows are those of `enqueue`; the kind is 'past' for an
-- offset that has ended (code from before offsets reads five columns).
--
-- The changes name every entry once. The other parameters are those of `enqueue`.
--
-- Locks: the rows of the entries, sorted by kind and key, then as enqueue. Index: the primary key of registry, and as
-- enqueue. Shape: the entries come first. Of two calls that expect the same version the second waits for the first
-- before it has stored anything, and nothing has to be undone: a caller's own transaction stays usable.
CREATE OR REPLACE FUNCTION enqueue_with_writes(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _kinds text[],
  _keys text[], _values bytea[], _versions bigint[], _ttls bigint[], _digest bytea[], {stored_parameters}
) RETURNS TABLE (item integer, existing text, conflict boolean, kind text, key text) LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
BEGIN
  RETURN QUERY
  SELECT 0, NULL::text, NULL::boolean, w.kind, w.key
    FROM write_entries(_space, _now, array_fill(1, ARRAY[cardinality(_kinds)]), _kinds, _keys, _values, _versions,
                       _ttls) AS w;
  IF FOUND THEN
    RETURN;
  END IF;

  RETURN QUERY
  SELECT e.item, e.existing, e.conflict, CASE WHEN e.past THEN 'past' END, NULL::text
    FROM enqueue(_space, _now, _channel, _owns_transaction, _window, _digest, {stored_arguments}) AS e;
END $$;
