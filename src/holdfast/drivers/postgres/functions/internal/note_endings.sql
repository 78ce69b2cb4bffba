-- Enter the offsets of ended jobs in ended_offsets, and halt the domains of dead jobs whose queue says so (law L11). The
-- arrays are those of pass_turns.
--
-- Locks: rows of `domains` and ended_offsets; the caller has locked the domains, so nobody waits for them. Index: the
-- primary keys of settings, domains and ended_offsets.
-- Shape: most offsets end in order and make a range longer: one statement for all of them. The others, which begin a range
-- or join two, are entered one by one. The largest offset is the largest number: nothing is added to it.
CREATE OR REPLACE FUNCTION note_endings(
  _space text, _now bigint, _queues text[], _domains text[], _offsets bigint[], _dead text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _grown tid[];           -- ranges that get longer
  _ends bigint[];         -- and where they end then
  _new_queues text[];     -- new ranges
  _new_domains text[];
  _firsts bigint[];
  _lasts bigint[];
BEGIN
  IF cardinality(array_remove(_dead, NULL)) > 0 THEN
    INSERT INTO domains AS d (space, queue, domain, halted_by, halted_at)
    SELECT DISTINCT ON (e.queue, e.domain) _space, e.queue, e.domain, e.id, _now
      FROM unnest(_queues, _domains, _dead) AS e (queue, domain, id)
     WHERE e.id IS NOT NULL
       AND EXISTS (SELECT FROM settings AS s
                    WHERE s.space = _space AND s.queue = e.queue AND s.type = '' AND s.on_exhausted = 'halt' OFFSET 0)
    ON CONFLICT (space, queue, domain) DO UPDATE SET halted_by = excluded.halted_by, halted_at = excluded.halted_at
     WHERE d.halted_by IS NULL;
  END IF;

  WITH ranges AS (  -- of neighbours in this batch
    SELECT r.queue, r.domain, min(r.place) AS first, max(r.place) AS last
      FROM (SELECT e.*, e.place - row_number() OVER (PARTITION BY e.queue, e.domain ORDER BY e.place) AS number
              FROM (SELECT DISTINCT u.queue, u.domain, u.place
                      FROM unnest(_queues, _domains, _offsets) AS u (queue, domain, place)
                     WHERE u.place IS NOT NULL) AS e) AS r
     GROUP BY r.queue, r.domain, r.number
  ), near AS (
    SELECT r.*, before.row, before.last AS last_before,
           coalesce(before.last = r.first - 1, false) AND coalesce(after.first - 1 > r.last, true) AS grows
      FROM ranges AS r
      LEFT JOIN LATERAL (
        SELECT o.ctid AS row, o.last FROM ended_offsets AS o
         WHERE o.space = _space AND o.queue = r.queue AND o.domain = r.domain AND o.first <= r.first
         ORDER BY o.first DESC LIMIT 1) AS before ON true
      LEFT JOIN LATERAL (
        SELECT o.first FROM ended_offsets AS o
         WHERE o.space = _space AND o.queue = r.queue AND o.domain = r.domain AND o.first > r.first
         ORDER BY o.first LIMIT 1) AS after ON true
  )
  SELECT array_agg(n.row) FILTER (WHERE n.grows), array_agg(n.last) FILTER (WHERE n.grows),
         array_agg(n.queue) FILTER (WHERE NOT n.grows), array_agg(n.domain) FILTER (WHERE NOT n.grows),
         array_agg(n.first) FILTER (WHERE NOT n.grows), array_agg(n.last) FILTER (WHERE NOT n.grows)
    INTO _grown, _ends, _new_queues, _new_domains, _firsts, _lasts
    FROM near AS n WHERE coalesce(n.last_before < n.last, true);  -- a requeued job had ended before

  IF _grown IS NOT NULL THEN
    UPDATE ended_offsets AS o SET last = g.last FROM unnest(_grown, _ends) AS g (row, last) WHERE o.ctid = g.row;
  END IF;

  FOR _item IN 1 .. coalesce(cardinality(_firsts), 0) LOOP
    WITH joined AS (
      DELETE FROM ended_offsets AS o
       WHERE o.space = _space AND o.queue = _new_queues[_item] AND o.domain = _new_domains[_item]
         AND o.first >= coalesce((SELECT b.first FROM ended_offsets AS b
                                   WHERE b.space = _space AND b.queue = _new_queues[_item]
                                     AND b.domain = _new_domains[_item] AND b.first <= _firsts[_item]
                                   ORDER BY b.first DESC LIMIT 1), 0)
         AND o.first <= least(_lasts[_item], 9223372036854775806) + 1 AND o.last >= _firsts[_item] - 1
      RETURNING o.first, o.last
    )
    INSERT INTO ended_offsets (space, queue, domain, first, last)
    SELECT _space, _new_queues[_item], _new_domains[_item], least(_firsts[_item], min(j.first)),
           greatest(_lasts[_item], max(j.last))
      FROM joined AS j;
  END LOOP;
END $$;
