-- Turns and halts of domains (L11).

-- name: assign_turns
-- Let the right job of each of these domains have the turn (law L11): its first job, by offset and then by arrival, unless the
-- domain is halted, or the first job is behind a gap that its queue waits for. A job in flight keeps the turn; a ready one
-- gives it back. A gap that has lasted for gap_pass_after is passed here.
--
-- Locks: the caller has locked the domains. The rows that lose or get the turn, SKIP LOCKED: every other verb locks rows
-- before domains, so this function must not wait for a row: the session that holds the row may wait for the domain. A row
-- that is locked stays as it is, and its domain is entered in `arrivals` for the next reserve: the session that holds the
-- row may lease or end the job, and pass the turn itself, or it may roll back. Rows of `domains`.
-- Index: jobs_domain, jobs_turn, the primary keys of domains, settings and ended_offsets.
-- Shape: three index probes per domain; settings and offsets are read only if the first job has an offset. Rows are
-- found by ctid. That is safe for a row without the turn, which only the holder of the domain lock updates. The row of a
-- ready holder is compared again when it is locked: a reserve may have leased it. That condition names the token and not the
-- state: otherwise the planner may read jobs_lane. give_turns does the same for most domains, in less time.
CREATE OR REPLACE FUNCTION assign_turns(_space text, _now bigint, _queues text[], _domains text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _changed_queues text[];
  _changed_domains text[];
  _losers tid[];          -- of each changed domain; NULL: none
  _winners tid[];
  _given tid[];           -- the winners whose domain has no other holder
  _lost_queues text[];    -- the domains whose holder has given the turn back
  _lost_domains text[];
  _keys text[];           -- of these holders
  _starts bigint[];       -- of changed rows of `domains`
  _waits bigint[];
  _since bigint[];
  _pass_at bigint[];
  _rewritten boolean[];
  _passed integer;
BEGIN
  SELECT array_agg(c.queue), array_agg(c.domain), array_agg(c.loser), array_agg(c.winner), array_agg(c.start),
         array_agg(c.waits_for), array_agg(c.since), array_agg(c.pass_at), array_agg(c.is_rewritten)
    INTO _changed_queues, _changed_domains, _losers, _winners, _starts, _waits, _since, _pass_at, _rewritten
    FROM (SELECT n.*, (n.start, n.waits_for, n.since, n.pass_at)
                      IS DISTINCT FROM (coalesce(n.old_start, 0), n.old_waits_for, n.old_since, n.old_pass_at) AS is_rewritten
            FROM (SELECT d.queue, d.domain,
                         CASE WHEN NOT t.is_busy AND (w.is_first OR NOT (g.may_run OR p.passes)) THEN holder.row END
                           AS loser,
                         CASE WHEN w.is_first AND (g.may_run OR p.passes) THEN waiting.row END AS winner,
                         CASE WHEN p.passes THEN first.place ELSE coalesce(r.start, 0) END AS start,
                         CASE WHEN g.has_gap AND NOT p.passes THEN t.position END AS waits_for,
                         CASE WHEN g.has_gap AND NOT p.passes THEN p.since END AS since,
                         CASE WHEN g.has_gap AND NOT p.passes THEN p.since + s.gap_pass_after END AS pass_at,
                         r.start AS old_start, r.waits_for AS old_waits_for, r.waiting_since AS old_since,
                         r.pass_at AS old_pass_at
                    FROM (SELECT DISTINCT u.queue, u.domain FROM unnest(_queues, _domains) AS u (queue, domain) OFFSET 0) AS d
                    LEFT JOIN LATERAL (
                      SELECT j.ctid AS row, j.state, j."offset" AS place, j.seq FROM jobs AS j
                       WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND j.turn
                       LIMIT 1) AS holder ON true
                    LEFT JOIN LATERAL (
                      SELECT j.ctid AS row, j."offset" AS place, j.seq FROM jobs AS j
                       WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn
                       ORDER BY j."offset", j.seq LIMIT 1) AS waiting ON true
                    LEFT JOIN LATERAL (
                      SELECT * FROM domains AS r WHERE r.space = _space AND r.queue = d.queue AND r.domain = d.domain
                      OFFSET 0) AS r ON true
                   CROSS JOIN LATERAL (
                     SELECT waiting.row IS NOT NULL
                              AND (holder.row IS NULL OR (waiting.place IS NULL, coalesce(waiting.place, 0), waiting.seq)
                                                         < (holder.place IS NULL, coalesce(holder.place, 0), holder.seq))
                              AS is_first) AS w
                   CROSS JOIN LATERAL (
                     SELECT CASE WHEN w.is_first THEN waiting.row ELSE holder.row END AS row,
                            CASE WHEN w.is_first THEN waiting.place ELSE holder.place END AS place) AS first
                    LEFT JOIN LATERAL (
                      SELECT s.gaps, s.gap_pass_after FROM settings AS s
                       WHERE first.place IS NOT NULL AND s.space = _space AND s.queue = d.queue AND s.type = '' AND s.gaps = 'wait'
                      OFFSET 0) AS s ON true
                    LEFT JOIN LATERAL (
                      SELECT o.last FROM ended_offsets AS o
                       WHERE s.gaps IS NOT NULL AND o.space = _space AND o.queue = d.queue AND o.domain = d.domain
                         AND o.first <= coalesce(r.start, 0)
                       ORDER BY o.first DESC LIMIT 1) AS ended ON true
                   CROSS JOIN LATERAL (
                     SELECT coalesce(holder.state = 'inflight', false) AS is_busy,
                            -- Behind the largest offset is no gap.
                            greatest(coalesce(r.start, 0), ended.last + (ended.last < 9223372036854775807)::integer) AS position) AS t
                   CROSS JOIN LATERAL (
                     SELECT NOT t.is_busy AND r.halted_by IS NULL AND first.row IS NOT NULL
                              AND (s.gaps IS NULL OR first.place <= t.position) AS may_run,
                            NOT t.is_busy AND r.halted_by IS NULL AND s.gaps IS NOT NULL AND first.place > t.position
                              AS has_gap) AS g
                   CROSS JOIN LATERAL (
                     SELECT since.at AS since, g.has_gap AND coalesce(since.at + s.gap_pass_after <= _now, false) AS passes
                       FROM (SELECT CASE WHEN r.waits_for = t.position THEN r.waiting_since ELSE _now END) AS since (at)) AS p
                 ) AS n) AS c
   WHERE c.loser IS NOT NULL OR c.winner IS NOT NULL OR c.is_rewritten;
  IF _changed_queues IS NULL THEN
    RETURN;
  END IF;

  _given := array_remove(_winners, NULL);
  IF cardinality(array_remove(_losers, NULL)) > 0 THEN
    -- A parked job that waits for its turn is not parked: what unparks jobs reads only those with the turn.
    WITH changed AS (
      UPDATE jobs AS j
         SET turn = false, available_at = coalesce(j.parked_from, j.available_at), parked_from = NULL
       WHERE j.ctid = ANY (ARRAY(SELECT h.ctid FROM jobs AS h WHERE h.ctid = ANY (_losers) AND h.turn AND h.token IS NULL
                                    FOR UPDATE SKIP LOCKED))
      RETURNING j.queue, j.domain, j.limit_key
    )
    SELECT array_agg(c.queue), array_agg(c.domain), array_agg(c.limit_key) INTO _lost_queues, _lost_domains, _keys
      FROM changed AS c;
    IF cardinality(array_remove(_keys, NULL)) > 0 THEN  -- another job of the key may have the place
      PERFORM note_key_changes(_space, k.queues, k.keys, true)
         FROM (SELECT array_agg(u.queue) AS queues, array_agg(u.key) AS keys
                 FROM unnest(_lost_queues, _keys) AS u (queue, key) WHERE u.key IS NOT NULL) AS k;
    END IF;
    _given := ARRAY(
      SELECT c.winner FROM unnest(_changed_queues, _changed_domains, _losers, _winners) AS c (queue, domain, loser, winner)
       WHERE c.winner IS NOT NULL
         AND (c.loser IS NULL
              OR (c.queue, c.domain) IN (SELECT l.queue, l.domain
                                           FROM unnest(_lost_queues, _lost_domains) AS l (queue, domain))));
  END IF;

  UPDATE jobs SET turn = true
   WHERE ctid = ANY (ARRAY(SELECT j.ctid FROM jobs AS j WHERE j.ctid = ANY (_given) FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS _passed = ROW_COUNT;
  IF _passed < cardinality(array_remove(_winners, NULL))
     OR coalesce(cardinality(_lost_queues), 0) < cardinality(array_remove(_losers, NULL)) THEN
    INSERT INTO arrivals (space, queue, domain)
    SELECT _space, c.queue, c.domain FROM unnest(_changed_queues, _changed_domains) AS c (queue, domain);
  END IF;

  IF true = ANY (_rewritten) THEN
    INSERT INTO domains (space, queue, domain, start, waits_for, waiting_since, pass_at)
    SELECT _space, c.queue, c.domain, c.start, c.waits_for, c.since, c.pass_at
      FROM unnest(_changed_queues, _changed_domains, _starts, _waits, _since, _pass_at, _rewritten)
           AS c (queue, domain, start, waits_for, since, pass_at, is_rewritten)
     WHERE c.is_rewritten
    ON CONFLICT (space, queue, domain) DO UPDATE
       SET start = excluded.start, waits_for = excluded.waits_for, waiting_since = excluded.waiting_since,
           pass_at = excluded.pass_at;
  END IF;
END $$;


-- name: clear_halts
-- Let the domains go on that these jobs halted, each in its own domain. The next reserve assigns their turns.
--
-- Locks: the domains, then their rows. Index: the primary key of domains. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION clear_halts(_space text, _ids text[], _queues text[], _domains text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  UPDATE domains AS d SET halted_by = NULL, halted_at = NULL
    FROM (SELECT _space AS space, u.* FROM unnest(_ids, _queues, _domains) AS u (id, queue, domain) OFFSET 0) AS a
   WHERE d.space = ANY (ARRAY[a.space]) AND d.queue = a.queue AND d.domain = a.domain AND d.halted_by = a.id;
  INSERT INTO arrivals (space, queue, domain)
  SELECT DISTINCT _space, a.queue, a.domain FROM unnest(_queues, _domains) AS a (queue, domain);
END $$;


-- name: describe_domains
-- Return what an operator sees of these domains: DomainInfo in model/domain.py, in the order of the arrays.
--
-- Locks: none. Index: jobs_domain, jobs_turn, the primary keys of domains, settings and ended_offsets.
-- Shape: a few probes per domain. The open jobs are counted by the caller, for those that are listed.
CREATE OR REPLACE FUNCTION describe_domains(_space text, _now bigint, _queues text[], _domains text[])
RETURNS TABLE (
  queue text, domain text, status text, "position" bigint, waits_for bigint, waiting_since bigint, halted_by text,
  halted_at bigint, head_id text, head_offset bigint, is_overdue boolean, item bigint
) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT d.queue, d.domain,
         CASE WHEN r.halted_by IS NOT NULL THEN 'halted'
              WHEN head.state = 'inflight' THEN 'running'
              WHEN g.has_gap THEN 'waiting'
              WHEN head.due_at > _now THEN 'backoff'
              ELSE 'open' END,
         p.position, CASE WHEN g.has_gap THEN p.position END,
         CASE WHEN g.has_gap AND r.waits_for = p.position THEN r.waiting_since END, r.halted_by, r.halted_at, head.id,
         head.place,
         coalesce(g.has_gap AND r.waits_for = p.position AND r.waiting_since + s.gap_report_after <= _now, false), d.item
    FROM (SELECT u.* FROM unnest(_queues, _domains) WITH ORDINALITY AS u (queue, domain, item) OFFSET 0) AS d
    LEFT JOIN LATERAL (
      SELECT j.id, j.state, j."offset" AS place, j.seq, coalesce(j.parked_from, j.available_at) AS due_at FROM jobs AS j
       WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND j.turn LIMIT 1) AS holder ON true
    LEFT JOIN LATERAL (
      SELECT j.id, j.state, j."offset" AS place, j.seq, coalesce(j.parked_from, j.available_at) AS due_at FROM jobs AS j
       WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn
       ORDER BY j."offset", j.seq LIMIT 1) AS waiting ON true
    LEFT JOIN LATERAL (
      SELECT * FROM (VALUES (holder.id, holder.state, holder.place, holder.seq, holder.due_at),
                            (waiting.id, waiting.state, waiting.place, waiting.seq, waiting.due_at))
                    AS j (id, state, place, seq, due_at)
       WHERE j.id IS NOT NULL ORDER BY j.place, j.seq LIMIT 1) AS first ON true
    LEFT JOIN LATERAL (
      SELECT * FROM domains AS r WHERE r.space = _space AND r.queue = d.queue AND r.domain = d.domain OFFSET 0) AS r ON true
    LEFT JOIN LATERAL (
      SELECT s.gaps, s.gap_report_after FROM settings AS s
       WHERE s.space = _space AND s.queue = d.queue AND s.type = '' OFFSET 0) AS s ON true
    LEFT JOIN LATERAL (
      SELECT o.last FROM ended_offsets AS o
       WHERE o.space = _space AND o.queue = d.queue AND o.domain = d.domain AND o.first <= coalesce(r.start, 0)
       ORDER BY o.first DESC LIMIT 1) AS ended ON true
   CROSS JOIN LATERAL (
     SELECT greatest(coalesce(r.start, 0), ended.last + (ended.last < 9223372036854775807)::integer) AS position) AS p
   CROSS JOIN LATERAL (
     SELECT CASE WHEN holder.state = 'inflight' THEN holder.id ELSE first.id END AS id,
            CASE WHEN holder.state = 'inflight' THEN holder.state ELSE first.state END AS state,
            CASE WHEN holder.state = 'inflight' THEN holder.place ELSE first.place END AS place,
            first.due_at) AS head
   CROSS JOIN LATERAL (
     SELECT coalesce(s.gaps = 'wait' AND r.halted_by IS NULL AND holder.state IS DISTINCT FROM 'inflight'
                     AND first.place > p.position, false) AS has_gap) AS g
   ORDER BY d.item;
END $$;


-- name: give_turns
-- Let the right job of each of these domains have the turn, as assign_turns does, where that is simple: the queues have no
-- halts and no gaps, and no job has to give the turn back. _vacant says that this transaction has ended the jobs that had
-- the turns. Return whether all domains are done; if not, assign_turns decides about them.
--
-- Locks: the caller has locked the domains. The rows that get the turn, SKIP LOCKED: see assign_turns.
-- Index: jobs_domain, jobs_turn, the primary keys of domains and settings.
-- Shape: one or two probes and one update per domain, in one statement. Nearly all turns are given here. A batch of cancelled
-- jobs names its domain once for each: a probe for each would read all of them again. `suspect` is set to itself: an update
-- that changes no column of a generated one parses the generation expression again for every row.
CREATE OR REPLACE FUNCTION give_turns(_space text, _queues text[], _domains text[], _vacant boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  _is_done boolean;
BEGIN
  IF EXISTS (
    SELECT FROM (SELECT DISTINCT u.queue FROM unnest(_queues) AS u (queue)) AS q
     WHERE EXISTS (SELECT FROM domains AS d WHERE d.space = _space AND d.queue = q.queue OFFSET 0)
        OR EXISTS (SELECT FROM settings AS s
                    WHERE s.space = _space AND s.queue = q.queue AND s.type = '' AND s.gaps = 'wait' OFFSET 0)) THEN
    RETURN false;  -- a halt, a gap or a moved start decides about the turn, or may
  END IF;

  WITH next AS MATERIALIZED (
    SELECT first.row, holder.row IS NULL AS is_given
      FROM (SELECT DISTINCT u.queue, u.domain FROM unnest(_queues, _domains) AS u (queue, domain) OFFSET 0) AS d
      LEFT JOIN LATERAL (
        SELECT j.ctid AS row, j.state, j."offset" AS place, j.seq FROM jobs AS j
         WHERE NOT _vacant AND j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND j.turn
         LIMIT 1) AS holder ON true
     CROSS JOIN LATERAL (
        SELECT j.ctid AS row, j."offset" AS place, j.seq FROM jobs AS j
         WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn
         ORDER BY j."offset", j.seq LIMIT 1) AS first
     WHERE holder.row IS NULL
        OR (holder.state = 'ready' AND (first.place IS NULL, coalesce(first.place, 0), first.seq)
                                       < (holder.place IS NULL, coalesce(holder.place, 0), holder.seq))
  ), given AS (
    UPDATE jobs SET turn = true, suspect = suspect
     WHERE ctid = ANY (ARRAY(SELECT j.ctid FROM next AS n JOIN jobs AS j ON j.ctid = n.row WHERE n.is_given
                                FOR UPDATE OF j SKIP LOCKED))
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM given) = (SELECT count(*) FROM next) INTO _is_done;
  RETURN _is_done;
END $$;


-- name: lock_domains
-- Lock these domains until the end of the transaction: one transaction at a time moves the turn of a domain.
--
-- Locks: advisory, in ascending order. Index: none.
-- Shape: 512 buckets instead of one lock per domain. A batch can name ten thousand domains, and the lock table of
-- the server is small. Two domains in one bucket only wait for each other. The subquery is not flattened (OFFSET 0), so the
-- locks are taken in its order.
CREATE OR REPLACE FUNCTION lock_domains(_space text, _queues text[], _domains text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(1212106566, b.bucket)
     FROM (SELECT DISTINCT (hashtextextended(_space || E'\n' || d.queue || E'\n' || d.domain, 0) & 511)::integer AS bucket
             FROM unnest(_queues, _domains) AS d (queue, domain) ORDER BY bucket OFFSET 0) AS b;
END $$;


-- name: pass_turns
-- Note the endings of jobs of domains (note_endings), and let the right job of each of these domains have the turn
-- (give_turns, assign_turns). The arrays name a domain for each job that ended; _offsets has its offset, and _dead its id if
-- it is dead (NULL, or shorter arrays: neither). _vacant: see give_turns.
--
-- Locks: the domains, then those of the last two functions. One call per transaction: a second one would lock domains out of order.
-- Index: those of the three functions.
CREATE OR REPLACE FUNCTION pass_turns(
  _space text, _now bigint, _queues text[], _domains text[], _offsets bigint[], _dead text[], _vacant boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  IF cardinality(array_remove(_offsets, NULL)) > 0 OR cardinality(array_remove(_dead, NULL)) > 0 THEN
    PERFORM note_endings(_space, _now, _queues, _domains, _offsets, _dead);
  END IF;
  IF NOT give_turns(_space, _queues, _domains, _vacant) THEN
    PERFORM assign_turns(_space, _now, _queues, _domains);
  END IF;
END $$;
