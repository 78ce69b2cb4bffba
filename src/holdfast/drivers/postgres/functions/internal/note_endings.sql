-- Enter the offsets of ended jobs in ended_offsets, and halt the domains of dead jobs whose queue says so (law L11). The
-- arrays are those of pass_turns.
--
-- Locks: rows of `domains` and ended_offsets; the caller has locked the domains, so nobody waits for them. Index: the
-- primary keys of settings, domains and ended_offsets.
-- Shape: most offsets end in order and make a range longer by one: one statement for all of them, with one probe each. The
-- range that begins last, at or right behind an offset, is the only one that it can make longer without joining another
-- one. The others are entered as ranges of neighbours: those that join ranges one by one. The largest offset is the largest
-- number: nothing is added to it.
CREATE OR REPLACE FUNCTION note_endings(
  _space text, _now bigint, _queues text[], _domains text[], _offsets bigint[], _dead text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _count integer := cardinality(array_remove(_offsets, NULL));
  _grown integer;
  _new_queues text[];     -- ranges that join others
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

  UPDATE ended_offsets AS o SET last = g.place
    FROM (SELECT near.row, e.place
            FROM unnest(_queues, _domains, _offsets) AS e (queue, domain, place)
           CROSS JOIN LATERAL (
             SELECT o.ctid AS row, o.last FROM ended_offsets AS o
              WHERE o.space = _space AND o.queue = e.queue AND o.domain = e.domain
                AND o.first <= least(e.place, 9223372036854775806) + 1
              ORDER BY o.first DESC LIMIT 1) AS near
           WHERE e.place IS NOT NULL AND near.last = e.place - 1 OFFSET 0) AS g
   WHERE o.ctid = g.row;
  GET DIAGNOSTICS _grown = ROW_COUNT;
  IF _grown = _count THEN
    RETURN;
  END IF;

  WITH ranges AS MATERIALIZED (  -- of neighbours in this batch
    SELECT n.*, coalesce(near.last >= n.first - 1, false) AS joins
      FROM (SELECT r.queue, r.domain, min(r.place) AS first, max(r.place) AS last
              FROM (SELECT e.*, e.place - row_number() OVER (PARTITION BY e.queue, e.domain ORDER BY e.place) AS number
                      FROM (SELECT DISTINCT u.queue, u.domain, u.place
                              FROM unnest(_queues, _domains, _offsets) AS u (queue, domain, place)
                             WHERE u.place IS NOT NULL) AS e
                      LEFT JOIN LATERAL (
                        SELECT o.last FROM ended_offsets AS o
                         WHERE o.space = _space AND o.queue = e.queue AND o.domain = e.domain AND o.first <= e.place
                         ORDER BY o.first DESC LIMIT 1) AS before ON true
                     WHERE coalesce(before.last < e.place, true)  -- it is new: not entered above, nor before it was requeued
                   ) AS r
             GROUP BY r.queue, r.domain, r.number) AS n
      LEFT JOIN LATERAL (
        SELECT o.last FROM ended_offsets AS o
         WHERE o.space = _space AND o.queue = n.queue AND o.domain = n.domain
           AND o.first <= least(n.last, 9223372036854775806) + 1
         ORDER BY o.first DESC LIMIT 1) AS near ON true
  ), inserted AS (
    INSERT INTO ended_offsets (space, queue, domain, first, last)
    SELECT _space, r.queue, r.domain, r.first, r.last FROM ranges AS r WHERE NOT r.joins
  )
  SELECT array_agg(r.queue), array_agg(r.domain), array_agg(r.first), array_agg(r.last)
    INTO _new_queues, _new_domains, _firsts, _lasts FROM ranges AS r WHERE r.joins;

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
