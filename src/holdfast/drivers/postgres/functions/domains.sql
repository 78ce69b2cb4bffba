-- What operators see and do of domains.

-- name: forget_domain
-- Remove the ended offsets, the start and the halt of a domain without open jobs. Return whether something was removed.
--
-- Locks: the domain, then its rows. Index: jobs_turn, jobs_domain, the primary keys of domains and ended_offsets.
-- Shape: an enqueue that has not committed is not seen. Its job is stored, and its offset was new or will be.
CREATE OR REPLACE FUNCTION forget_domain(_space text, _queue text, _domain text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  _is_changed boolean;
BEGIN
  PERFORM lock_domains(_space, ARRAY[_queue], ARRAY[_domain]);
  IF EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain = _domain AND j.turn)
     OR EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain = _domain AND NOT j.turn) THEN
    RETURN false;
  END IF;
  DELETE FROM ended_offsets AS o WHERE o.space = _space AND o.queue = _queue AND o.domain = _domain;
  _is_changed := FOUND;
  DELETE FROM domains AS d WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain;
  RETURN _is_changed OR FOUND;
END $$;


-- name: list_domains
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


-- name: resume_domain
-- Let a halted domain go on (_action: ResumeAction), or move the offset from which on a domain waits for missing ones.
-- Return whether this call changed the domain.
--
-- Locks: those of requeue for 'retry', then the domain, then those of assign_turns. Index: the primary keys of domains and
-- ended.
CREATE OR REPLACE FUNCTION resume_domain(
  _space text, _caller_now bigint, _channel text, _queue text, _domain text, _action text, _position bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _halted_by text := (SELECT d.halted_by FROM domains AS d
                       WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain);
  _is_changed boolean := false;
BEGIN
  IF _action = 'retry' AND _halted_by IS NOT NULL THEN
    _is_changed := requeue(_space, _caller_now, ARRAY[_halted_by]) <> '{}';  -- and the domain is not halted any more
  END IF;

  PERFORM lock_domains(_space, ARRAY[_queue], ARRAY[_domain]);
  IF _action <> 'retry' THEN
    UPDATE domains AS d SET halted_by = NULL, halted_at = NULL
     WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain AND d.halted_by IS NOT NULL;
    _is_changed := FOUND;
  END IF;
  IF _position IS NOT NULL THEN
    INSERT INTO domains AS d (space, queue, domain, start)
    SELECT _space, _queue, _domain, _position
     WHERE _position > 0
        OR EXISTS (SELECT FROM domains AS d WHERE d.space = _space AND d.queue = _queue AND d.domain = _domain)
    ON CONFLICT (space, queue, domain) DO UPDATE SET start = excluded.start WHERE d.start <> excluded.start;
    _is_changed := _is_changed OR FOUND;
  END IF;
  PERFORM assign_turns(_space, _now, ARRAY[_queue], ARRAY[_domain]);
  IF _is_changed AND _channel IS NOT NULL THEN
    PERFORM pg_notify(_channel, _space);
  END IF;
  RETURN _is_changed;
END $$;


-- name: wake_domains
-- After the settings about gaps were replaced: let the next reserve judge every domain of the queue.
--
-- Locks: none. Index: jobs_offset, one probe per domain. Jobs without an offset wait for no gap.
CREATE OR REPLACE FUNCTION wake_domains(_space text, _queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO arrivals (space, queue, domain)
  WITH RECURSIVE found (domain) AS (
    SELECT (SELECT j.domain FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j."offset" IS NOT NULL
             ORDER BY j.domain, j."offset" LIMIT 1)
    UNION ALL
    SELECT (SELECT j.domain FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain > f.domain
               AND j."offset" IS NOT NULL ORDER BY j.domain, j."offset" LIMIT 1)
      FROM found AS f WHERE f.domain IS NOT NULL
  )
  SELECT _space, _queue, f.domain FROM found AS f WHERE f.domain IS NOT NULL;
END $$;
