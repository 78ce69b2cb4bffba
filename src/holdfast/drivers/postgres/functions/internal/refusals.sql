-- Return why settlements that ended no lease are refused (law L5). A settlement that repeats the last one of its job
-- is not refused and has no row here (law L6).
--
-- Locks: none. Index: the primary keys of jobs and ended. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION refusals(
  _space text, _now bigint, _items integer[], _ids text[], _tokens text[], _verbs text[]
) RETURNS TABLE (item integer, code text, state text, expires_at bigint, now bigint, kind text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT * FROM (
    SELECT a.item,
           CASE WHEN j.id IS NULL AND e.last_verb = a.verb AND e.last_token = a.token THEN NULL
                WHEN j.state = 'ready' AND j.last_verb = a.verb AND j.last_token = a.token THEN NULL
                WHEN j.id IS NULL OR j.state <> 'inflight' THEN 'not inflight'
                WHEN j.token <> a.token THEN 'mismatch'
                ELSE 'expired' END AS code,
           coalesce(j.state, e.state), j.expires_at, _now, NULL::text, NULL::text
      FROM (SELECT _space AS space, u.* FROM unnest(_items, _ids, _tokens, _verbs) AS u (item, id, token, verb) OFFSET 0
           ) AS a
      LEFT JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
      LEFT JOIN ended AS e ON e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND j.id IS NULL) AS judged
   WHERE judged.code IS NOT NULL;
END $$;
