-- Return a page of the domains that have an open job or are halted, ordered by queue and name, after (_after_queue,
-- _after_domain): at most _limit that match, among the first _rows. If there are _rows of them, a last row without a status
-- names the last one that was read. With _queue and _name: that domain, also if only its offsets or its start are known.
--
-- Locks: none. Index: jobs_turn, jobs_domain, domains_halted, and those of describe_domains.
-- Shape: the names are found by skipping from one domain to the next in these three indexes.
CREATE OR REPLACE FUNCTION list_domains(
  _space text, _caller_now bigint, _queue text, _name text, _status text, _after_queue text, _after_domain text,
  _limit integer, _rows integer
) RETURNS TABLE (
  queue text, domain text, status text, "position" bigint, open bigint, waits_for bigint, waiting_since bigint,
  halted_by text, halted_at bigint, head_id text, head_offset bigint, is_overdue boolean
) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  _now bigint := effective_now(_caller_now);
  _queues text[];
  _domains text[];
BEGIN
  IF _queue IS NOT NULL AND _name IS NOT NULL THEN
    IF (_queue COLLATE "C", _name COLLATE "C") > (_after_queue, _after_domain)
       AND (EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain = _name AND j.turn)
            OR EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain = _name AND NOT j.turn)
            OR EXISTS (SELECT FROM domains AS d
                        WHERE d.space = _space AND d.queue = _queue AND d.domain = _name
                          AND (d.halted_by IS NOT NULL OR d.start > 0))
            OR EXISTS (SELECT FROM ended_offsets AS o
                        WHERE o.space = _space AND o.queue = _queue AND o.domain = _name)) THEN
      _queues := ARRAY[_queue];
      _domains := ARRAY[_name];
    END IF;
  ELSE
    WITH RECURSIVE named (queue, domain, number) AS (
      SELECT greatest(_after_queue COLLATE "C", _queue), CASE WHEN _queue > _after_queue THEN '' ELSE _after_domain END COLLATE "C", 0
      UNION ALL
      SELECT next.queue, next.domain, n.number + 1
        FROM named AS n CROSS JOIN LATERAL (
          SELECT u.queue, u.domain
            FROM ((SELECT j.queue, j.domain FROM jobs AS j
                    WHERE _status IS DISTINCT FROM 'halted' AND j.space = _space AND j.domain IS NOT NULL AND j.turn
                      AND (j.queue, j.domain) > (n.queue, n.domain)
                    ORDER BY j.queue, j.domain LIMIT 1)
                  UNION ALL
                  (SELECT j.queue, j.domain FROM jobs AS j
                    WHERE _status IS DISTINCT FROM 'halted' AND j.space = _space AND j.domain IS NOT NULL AND NOT j.turn
                      AND (j.queue, j.domain) > (n.queue, n.domain)
                    ORDER BY j.queue, j.domain, j."offset", j.seq LIMIT 1)
                  UNION ALL
                  (SELECT d.queue, d.domain FROM domains AS d
                    WHERE d.space = _space AND d.halted_by IS NOT NULL AND (d.queue, d.domain) > (n.queue, n.domain)
                    ORDER BY d.queue, d.domain, d.halted_by LIMIT 1)) AS u
           ORDER BY u.queue, u.domain LIMIT 1) AS next
       WHERE n.number < _rows AND (_queue IS NULL OR next.queue = _queue)
    )
    SELECT array_agg(n.queue), array_agg(n.domain) INTO _queues, _domains FROM named AS n WHERE n.number > 0;
  END IF;

  RETURN QUERY
  SELECT d.queue, d.domain, d.status, d.position,
         (SELECT count(*) FROM jobs AS j
           WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND j.turn)
         + (SELECT count(*) FROM jobs AS j
             WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn), d.waits_for, d.waiting_since,
         d.halted_by, d.halted_at, d.head_id, d.head_offset, d.is_overdue
    FROM (SELECT * FROM describe_domains(_space, _now, _queues, _domains) AS d
           WHERE (_status IS NULL OR d.status = _status) AND (_name IS NULL OR d.domain = _name)
           ORDER BY d.item LIMIT _limit) AS d
   ORDER BY d.item;
  IF cardinality(_queues) = _rows THEN
    queue := _queues[_rows];
    domain := _domains[_rows];
    RETURN NEXT;
  END IF;
END $$;
