-- Limits by key: allowances, holds, and jobs that are set aside (ADR 0035).

-- name: hold_keys
-- Hold keys: none of their jobs is reserved before these instants. The next reserve enters the holds in limit_keys.
--
-- Locks: the settings of the queues, sorted. Index: the primary key of settings.
-- Shape: the settings are updated even if the queue is keyed: the lock keeps trim_expired from making it not keyed.
CREATE OR REPLACE FUNCTION hold_keys(_space text, _queues text[], _keys text[], _until bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO settings (space, queue, keyed)
  SELECT DISTINCT _space, h.queue COLLATE "C", true FROM unnest(_queues) AS h (queue) ORDER BY 2
  ON CONFLICT (space, queue, type) DO UPDATE SET keyed = true;
  INSERT INTO key_changes (space, queue, key, held_until)
  SELECT _space, h.queue, h.key, max(h.until)
    FROM unnest(_queues, _keys, _until) AS h (queue, key, until) GROUP BY h.queue, h.key;
END $$;


-- name: key_allowances
-- Return how many more jobs of each of these keys may be leased now: `free`, at most 10000, the largest batch. `places`
-- are those that key_max_inflight leaves and `tokens` those of the rate bucket; NULL: not limited. The same arithmetic as
-- QueueSettings.allowance in model/queue_settings.py.
--
-- Locks: none; lock_limits has locked the settings of the queues. Index: the primary keys of settings and limit_keys,
-- and jobs_key_leased, of which no more than key_max_inflight entries are read.
CREATE OR REPLACE FUNCTION key_allowances(_space text, _now bigint, _queues text[], _keys text[])
RETURNS TABLE (queue text, key text, places bigint, tokens bigint, free bigint) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT a.queue, a.key, a.places, a.tokens,
         CASE WHEN a.held_until > _now THEN 0 ELSE greatest(0, least(10000, a.places, a.tokens)) END
    FROM (SELECT k.queue, k.key, l.held_until,
                 s.key_max_inflight - (
                   SELECT count(*)
                     FROM (SELECT FROM jobs AS j
                            WHERE s.key_max_inflight IS NOT NULL AND j.space = _space AND j.queue = k.queue
                              AND j.limit_key = k.key AND j.token IS NOT NULL
                            LIMIT s.key_max_inflight) AS leased) AS places,
                 CASE WHEN s.key_rate IS NOT NULL
                      THEN bucket_level(s.key_rate, s.key_burst, l.level, l.level_at, _now) / 1000000 END AS tokens
            FROM unnest(_queues, _keys) AS k (queue, key)
            LEFT JOIN LATERAL (SELECT * FROM settings AS s
                                WHERE s.space = _space AND s.queue = k.queue AND s.type = '' OFFSET 0) AS s ON true
            LEFT JOIN LATERAL (SELECT * FROM limit_keys AS l
                                WHERE l.space = _space AND l.queue = k.queue AND l.key = k.key OFFSET 0) AS l ON true
         ) AS a;
END $$;


-- name: key_idle_at
-- Return from when on nothing of the past limits the jobs of a key: its hold has ended and its rate bucket is full and idle
-- (QueueSettings.is_idle in model/queue_settings.py). At most a second later than that.
--
-- Locks: none. Index: none.
CREATE OR REPLACE FUNCTION key_idle_at(
  _rate double precision, _burst integer, _level bigint, _level_at bigint, _held_until bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN greatest(0, _held_until, 1000000 + bucket_reaches(
  coalesce(_burst, greatest(1, ceil(_rate)))::bigint * 1000000 + 1000000, _rate, _level, _level_at));


-- name: note_key_changes
-- Enter the keys of jobs that have left: those of ended leases if the key has parked jobs, with _always all. Called after
-- the rows of the jobs were locked, in a later statement: unpark_jobs relies on that.
--
-- Locks: none. Index: the primary key of limit_keys.
CREATE OR REPLACE FUNCTION note_key_changes(_space text, _queues text[], _keys text[], _always boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO key_changes (space, queue, key)
  SELECT DISTINCT _space, k.queue, k.key
    FROM unnest(_queues, _keys) AS k (queue, key)
   WHERE _always
      OR EXISTS (SELECT FROM limit_keys AS l
                  WHERE l.space = _space AND l.queue = k.queue AND l.key = k.key AND l.parked OFFSET 0);
END $$;


-- name: open_keys
-- Enter the holds of keys in these queues, and judge the keys that may allow more jobs than before (unpark_jobs): those of
-- key_changes and those whose wake_at has come. At most 5,000 changes and 1,000 woken keys per queue; the next reserve
-- takes the others.
--
-- Locks: the changes, SKIP LOCKED. lock_limits has locked the settings of the queues. Index: key_changes_queue,
-- limit_keys_wake.
CREATE OR REPLACE FUNCTION open_keys(_space text, _now bigint, _queues text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _changed_queues text[];
  _changed_keys text[];
  _holds bigint[];
  _key_queues text[];
  _keys text[];
BEGIN
  WITH removed AS (
    DELETE FROM key_changes AS c
     WHERE c.ctid = ANY (ARRAY(SELECT c.ctid FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
                                 SELECT c.ctid FROM key_changes AS c WHERE c.space = _space AND c.queue = q.queue
                                  LIMIT 5000 FOR UPDATE SKIP LOCKED) AS c))
    RETURNING c.queue, c.key, c.held_until)
  SELECT array_agg(r.queue), array_agg(r.key), array_agg(r.held_until) INTO _changed_queues, _changed_keys, _holds
    FROM (SELECT queue, key, max(held_until) AS held_until FROM removed GROUP BY queue, key) AS r;

  IF EXISTS (SELECT FROM unnest(_holds) AS h (until) WHERE h.until > _now) THEN
    INSERT INTO limit_keys AS l (space, queue, key, held_until, idle_at)
    SELECT _space, c.queue, c.key, c.until, c.until
      FROM unnest(_changed_queues, _changed_keys, _holds) AS c (queue, key, until) WHERE c.until > _now
    ON CONFLICT (space, queue, key) DO UPDATE
       SET held_until = greatest(l.held_until, excluded.held_until), idle_at = greatest(l.idle_at, excluded.idle_at);
  END IF;

  SELECT array_agg(k.queue), array_agg(k.key) INTO _key_queues, _keys
    FROM (SELECT c.queue, c.key FROM unnest(_changed_queues, _changed_keys) AS c (queue, key)
          UNION
          SELECT q.queue, due.key FROM unnest(_queues) AS q (queue) CROSS JOIN LATERAL (
            SELECT l.key FROM limit_keys AS l WHERE l.space = _space AND l.queue = q.queue AND l.wake_at <= _now
             ORDER BY l.wake_at LIMIT 1000) AS due) AS k;
  IF _keys IS NOT NULL THEN
    PERFORM unpark_jobs(_space, _now, _key_queues, _keys, true);
  END IF;
END $$;


-- name: park_full_keys
-- Check the jobs of keyed queues that a reserve has picked against the limits of their keys. If a key allows fewer, park
-- its other due jobs, whatever their types; the caller picks again. _next is a job at which the answer of the reserve
-- would end. With lanes (_queues, ...), the keys of the first 1,000 jobs of each lane are checked, too, and jobs of keys
-- that have more there than they allow are parked: many keys, with a few jobs each, do not need one pick for each of them.
-- Such a key keeps the best jobs of each type, as many as it allows (see unpark_jobs). About 5,000 jobs are parked at most.
--
-- Return the picked jobs that the keys allow, how many jobs were parked, and the keys of the picked jobs.
--
-- Locks: the parked rows, SKIP LOCKED. lock_limits has locked the settings of the queues. Index: jobs_lane, jobs_key_ready,
-- the primary key of limit_keys.
-- Shape: allowances and jobs are joined by sorting both together: a join compares each with each (hash joins are off).
CREATE OR REPLACE FUNCTION park_full_keys(
  _space text, _now bigint, _keyed text[], _taken tid[], _next tid, _queues text[], _types text[],
  _priorities integer[], _isolated boolean[], _heads bigint[],
  OUT allowed tid[], OUT parked integer, OUT key_queues text[], OUT keys text[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  _judged_queues text[];
  _judged_keys text[];
  _waiting bigint[];       -- how many of the first jobs of the lanes have the key
  _full_queues text[];     -- the keys of which jobs are parked
  _full_keys text[];
  _spare bigint[];         -- how many jobs of each type stay in the lanes, beside those of _kept
  _share integer;          -- how many jobs of one lane are parked at most
  _kept tid[];             -- picked jobs with keys that their keys allow
  _is_over boolean;
BEGIN
  allowed := _taken;
  parked := 0;
  SELECT array_agg(k.queue) FILTER (WHERE k.is_picked), array_agg(k.key) FILTER (WHERE k.is_picked),
         array_agg(k.queue), array_agg(k.key), array_agg(k.waiting)
    INTO key_queues, keys, _judged_queues, _judged_keys, _waiting
    FROM (SELECT c.queue, c.key, bool_or(c.is_picked) AS is_picked, count(*) FILTER (WHERE NOT c.is_picked) AS waiting
            FROM (SELECT j.queue, j.limit_key, true
                    FROM unnest(_taken || _next) AS t (job_ctid) JOIN jobs AS j ON j.ctid = t.job_ctid
                  UNION ALL
                  SELECT lane.queue, first.limit_key, false
                    FROM unnest(_queues, _types, _priorities, _isolated, _heads)
                         AS lane (queue, type, priority, isolated, head)
                   CROSS JOIN LATERAL (
                     SELECT j.limit_key FROM jobs AS j
                      WHERE j.space = _space AND j.queue = lane.queue AND j.type = lane.type
                        AND j.priority = lane.priority AND j.isolated = lane.isolated AND j.state = 'ready' AND j.turn
                        AND j.available_at BETWEEN lane.head AND _now
                      ORDER BY j.available_at, j.seq LIMIT 1000) AS first) AS c (queue, key, is_picked)
           WHERE c.key IS NOT NULL AND c.queue = ANY (_keyed) GROUP BY c.queue, c.key) AS k;
  IF keys IS NULL THEN
    RETURN;
  END IF;

  WITH judged (queue, key, free, waiting, job_ctid, priority, available_at, seq) AS (
    SELECT a.queue, a.key, a.free, NULL::bigint, NULL::tid, NULL::integer, NULL::bigint, NULL::bigint
      FROM key_allowances(_space, _now, _judged_queues, _judged_keys) AS a
    UNION ALL
    SELECT w.queue, w.key, NULL, w.waiting, NULL, NULL, NULL, NULL
      FROM unnest(_judged_queues, _judged_keys, _waiting) AS w (queue, key, waiting)
    UNION ALL
    SELECT j.queue, j.limit_key, NULL, NULL, j.ctid, j.priority, j.available_at, j.seq
      FROM unnest(_taken || _next) AS t (job_ctid) JOIN jobs AS j ON j.ctid = t.job_ctid
     WHERE j.limit_key IS NOT NULL AND j.queue = ANY (_keyed)
  ), ranked AS (
    SELECT u.queue, u.key, u.job_ctid, u.waiting, max(u.free) OVER of_key AS free,
           count(u.job_ctid) OVER of_key AS wanted,
           count(u.job_ctid) OVER (PARTITION BY u.queue, u.key ORDER BY u.priority DESC, u.available_at, u.seq
                                   ROWS UNBOUNDED PRECEDING) AS place
      FROM judged AS u WINDOW of_key AS (PARTITION BY u.queue, u.key)
  )
  SELECT bool_or(r.wanted > r.free), array_agg(r.job_ctid) FILTER (WHERE r.job_ctid IS NOT NULL AND r.place <= r.free),
         array_agg(r.queue) FILTER (WHERE r.is_full), array_agg(r.key) FILTER (WHERE r.is_full),
         array_agg(CASE WHEN r.wanted >= r.free THEN 0 ELSE r.free END) FILTER (WHERE r.is_full)
    INTO _is_over, _kept, _full_queues, _full_keys, _spare
    FROM (SELECT *, waiting IS NOT NULL AND (wanted >= free OR waiting > free) AS is_full FROM ranked) AS r;
  IF NOT _is_over THEN
    RETURN;
  END IF;
  allowed := ARRAY(
    SELECT t.job_ctid FROM unnest(_taken) WITH ORDINALITY AS t (job_ctid, item) JOIN jobs AS j ON j.ctid = t.job_ctid
     WHERE j.limit_key IS NULL OR j.queue <> ALL (_keyed) OR (t.job_ctid IN (SELECT unnest(_kept))) IS TRUE
     ORDER BY t.item);

  _share := greatest(20, 5000 / cardinality(_full_keys));
  WITH RECURSIVE lanes (queue, key, spare, type, isolated, priority) AS (
    SELECT k.queue, k.key, k.spare, first.*
      FROM unnest(_full_queues, _full_keys, _spare) AS k (queue, key, spare) CROSS JOIN LATERAL (
        SELECT j.type, j.isolated, j.priority FROM jobs AS j
         WHERE j.space = _space AND j.queue = k.queue AND j.limit_key = k.key AND j.token IS NULL AND j.turn
           AND j.parked_from IS NULL
         ORDER BY j.type, j.isolated, j.priority, j.available_at, j.seq LIMIT 1) AS first
    UNION ALL
    SELECT l.queue, l.key, l.spare, next.*
      FROM lanes AS l CROSS JOIN LATERAL (
        SELECT j.type, j.isolated, j.priority FROM jobs AS j
         WHERE j.space = _space AND j.queue = l.queue AND j.limit_key = l.key AND j.token IS NULL AND j.turn
           AND j.parked_from IS NULL AND (j.type, j.isolated, j.priority) > (l.type, l.isolated, l.priority)
         ORDER BY j.type, j.isolated, j.priority, j.available_at, j.seq LIMIT 1) AS next
  ), due AS (
    SELECT d.row, l.spare, row_number() OVER (PARTITION BY l.queue, l.key, l.type, l.isolated
                                              ORDER BY l.priority DESC, d.available_at, d.seq) AS place
      FROM lanes AS l CROSS JOIN LATERAL (
        SELECT j.ctid AS row, j.available_at, j.seq FROM jobs AS j
         WHERE j.space = _space AND j.queue = l.queue AND j.limit_key = l.key AND j.type = l.type
           AND j.isolated = l.isolated AND j.priority = l.priority AND j.token IS NULL AND j.turn
           AND j.parked_from IS NULL AND j.available_at <= _now AND (j.ctid IN (SELECT unnest(_kept))) IS NOT TRUE
         ORDER BY j.available_at, j.seq LIMIT l.spare + _share) AS d
  ), changed AS (
    UPDATE jobs AS j SET parked_from = j.available_at, available_at = 253402300799999999
     WHERE j.ctid = ANY (ARRAY(
       SELECT w.ctid FROM jobs AS w
        WHERE w.ctid = ANY (ARRAY(SELECT due.row FROM due WHERE due.place > due.spare LIMIT 5000)) FOR UPDATE SKIP LOCKED))
    RETURNING j.queue, j.limit_key
  ), entered AS (
    INSERT INTO limit_keys AS l (space, queue, key, parked, wake_at)
    SELECT DISTINCT _space, c.queue, c.limit_key, true, _now FROM changed AS c
    ON CONFLICT (space, queue, key) DO UPDATE SET parked = true, watched = false, wake_at = _now WHERE NOT l.parked
  )
  SELECT count(*) INTO parked FROM changed;
END $$;


-- name: spend_keys
-- Take those of these jobs that are in keyed queues out of the rate buckets of their keys.
--
-- Locks: none; lock_limits has locked the settings of the queues. Index: the primary keys of settings and limit_keys.
CREATE OR REPLACE FUNCTION spend_keys(_space text, _now bigint, _keyed text[], _taken tid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO limit_keys AS k (space, queue, key, level, level_at, idle_at)
  SELECT _space, n.queue, n.key, n.level, _now, key_idle_at(n.rate, n.burst, n.level, _now, n.held_until)
    FROM (SELECT u.queue, u.key, l.held_until, s.key_rate AS rate, s.key_burst AS burst,
                 bucket_level(s.key_rate, s.key_burst, l.level, l.level_at, _now) - u.count * 1000000 AS level
            FROM (SELECT j.queue, j.limit_key AS key, count(*) AS count
                    FROM unnest(_taken) AS t (job_ctid) JOIN jobs AS j ON j.ctid = t.job_ctid
                   WHERE j.limit_key IS NOT NULL AND j.queue = ANY (_keyed) GROUP BY j.queue, j.limit_key) AS u
           CROSS JOIN LATERAL (SELECT * FROM settings AS s
                                WHERE s.space = _space AND s.queue = u.queue AND s.type = '' OFFSET 0) AS s
            LEFT JOIN LATERAL (SELECT * FROM limit_keys AS l
                                WHERE l.space = _space AND l.queue = u.queue AND l.key = u.key OFFSET 0) AS l ON true
           WHERE s.key_rate IS NOT NULL) AS n
  ON CONFLICT (space, queue, key) DO UPDATE
     SET level = excluded.level, level_at = excluded.level_at, idle_at = excluded.idle_at;
END $$;


-- name: unpark_jobs
-- Judge these keys: put as many of their parked jobs back into the lanes as the keys allow now, and set when each key is
-- judged again. _is_first: this reserve has parked nothing yet.
--
-- Of each type of a key, isolated or not, the best due jobs are in the lanes (law L10), as many as the key allows: workers
-- reserve by type, and a type may be paused. What is too much there is parked again by the reserve that finds the key
-- full.
--
-- No job stays parked for ever. Its key allows a job when a lease of it ends, at an instant (rate, hold), or when its
-- limits are changed. The instant is wake_at, and configure sets wake_at (wake_keys). Whoever ends a lease enters the key in
-- key_changes if it sees that the key has parked jobs, and looks after it has locked the row of the job. A transaction
-- that looked before the park was committed sees nothing; it holds the row of its job until it ends. So a key that has
-- parked jobs is judged by every reserve until, in one after that commit, all rows of its leases can be locked: then no such
-- transaction is left, and the key is `watched`. Leases that begin later are ended by transactions that see the park.
--
-- Locks: the rows that are unparked, SKIP LOCKED: a session that holds such a row may wait for the settings that
-- lock_limits has locked. If a row was locked, the keys are judged again by the next reserve. The rows of leases of a
-- key that is not watched (FOR KEY SHARE: heartbeats do not wait). Index: the primary key of limit_keys, jobs_parked,
-- jobs_key_ready, jobs_key_leased.
CREATE OR REPLACE FUNCTION unpark_jobs(
  _space text, _now bigint, _key_queues text[], _key_names text[], _is_first boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _queues text[];      -- of the keys with parked jobs
  _keys text[];
  _free bigint[];
  _places bigint[];
  _tokens bigint[];
  _seen_queues text[]; -- the keys that become watched: the rows of all their leases could be locked
  _seen_keys text[];
  _chosen tid[];
  _unparked integer;
BEGIN
  IF _is_first THEN
    -- In an earlier statement than the count of places: a lease that is locked here is ended by a transaction that sees
    -- the park, and a lease that has ended before is not counted. In the other order, a lease that ends between the two
    -- statements is counted, and no reserve judges the key again.
    SELECT array_agg(k.queue), array_agg(k.key) INTO _seen_queues, _seen_keys
      FROM (SELECT DISTINCT _space AS space, u.* FROM unnest(_key_queues, _key_names) AS u (queue, key) OFFSET 0) AS k
      JOIN limit_keys AS l ON l.space = ANY (ARRAY[k.space]) AND l.queue = k.queue AND l.key = k.key
     CROSS JOIN LATERAL (SELECT s.key_max_inflight FROM settings AS s
                          WHERE s.space = _space AND s.queue = k.queue AND s.type = '' OFFSET 0) AS s
     WHERE l.parked
       AND CASE WHEN l.watched OR s.key_max_inflight IS NULL THEN false
                ELSE (SELECT count(*) FROM (SELECT FROM jobs AS j
                                             WHERE j.space = _space AND j.queue = k.queue AND j.limit_key = k.key
                                               AND j.token IS NOT NULL
                                               FOR KEY SHARE SKIP LOCKED) AS locked)
                     = (SELECT count(*) FROM jobs AS j
                         WHERE j.space = _space AND j.queue = k.queue AND j.limit_key = k.key
                           AND j.token IS NOT NULL) END;
  END IF;

  SELECT array_agg(a.queue), array_agg(a.key), array_agg(a.free), array_agg(a.places), array_agg(a.tokens)
    INTO _queues, _keys, _free, _places, _tokens
    FROM (SELECT array_agg(l.queue) AS queues, array_agg(l.key) AS keys
            FROM (SELECT DISTINCT _space AS space, u.* FROM unnest(_key_queues, _key_names) AS u (queue, key) OFFSET 0) AS k
            JOIN limit_keys AS l ON l.space = ANY (ARRAY[k.space]) AND l.queue = k.queue AND l.key = k.key
           WHERE l.parked) AS p
   CROSS JOIN LATERAL key_allowances(_space, _now, p.queues, p.keys) AS a;
  IF _keys IS NULL THEN
    RETURN;
  END IF;

  _chosen := ARRAY(
    WITH RECURSIVE classes (queue, key, free, has_ready, type, isolated) AS (
      SELECT k.queue, k.key, least(k.free, 5000),
             (k.places IS NOT NULL OR k.tokens IS NOT NULL)
               AND EXISTS (SELECT FROM jobs AS j
                            WHERE j.space = _space AND j.queue = k.queue AND j.limit_key = k.key AND j.token IS NULL
                              AND j.turn AND j.parked_from IS NULL OFFSET 0),
             first.*
        FROM unnest(_queues, _keys, _free, _places, _tokens) AS k (queue, key, free, places, tokens)
       CROSS JOIN LATERAL (
         SELECT j.type, j.isolated FROM jobs AS j
          WHERE j.space = _space AND j.queue = k.queue AND j.limit_key = k.key AND j.parked_from IS NOT NULL
          ORDER BY j.type, j.isolated, j.priority DESC, j.parked_from, j.seq LIMIT 1) AS first
       WHERE k.free > 0
      UNION ALL
      SELECT c.queue, c.key, c.free, c.has_ready, next.*
        FROM classes AS c CROSS JOIN LATERAL (
          SELECT j.type, j.isolated FROM jobs AS j
           WHERE j.space = _space AND j.queue = c.queue AND j.limit_key = c.key AND j.parked_from IS NOT NULL
             AND (j.type, j.isolated) > (c.type, c.isolated)
           ORDER BY j.type, j.isolated, j.priority DESC, j.parked_from, j.seq LIMIT 1) AS next
    )
    SELECT best.row
      FROM classes AS c CROSS JOIN LATERAL (
        SELECT due.row
          FROM ((SELECT j.ctid, j.priority, j.parked_from, j.seq FROM jobs AS j
                  WHERE j.space = _space AND j.queue = c.queue AND j.limit_key = c.key AND j.type = c.type
                    AND j.isolated = c.isolated AND j.parked_from IS NOT NULL
                  ORDER BY j.priority DESC, j.parked_from, j.seq LIMIT c.free)
                UNION ALL
                (SELECT NULL, ready.*
                   FROM generate_series(0, CASE WHEN c.has_ready THEN 9 ELSE -1 END) AS p (priority) CROSS JOIN LATERAL (
                     SELECT j.priority, j.available_at, j.seq FROM jobs AS j
                      WHERE j.space = _space AND j.queue = c.queue AND j.limit_key = c.key AND j.type = c.type
                        AND j.isolated = c.isolated AND j.priority = p.priority AND j.token IS NULL AND j.turn
                        AND j.parked_from IS NULL AND j.available_at <= _now
                      ORDER BY j.available_at, j.seq LIMIT c.free) AS ready)) AS due (row, priority, available_at, seq)
         ORDER BY due.priority DESC, due.available_at, due.seq LIMIT c.free) AS best
     WHERE best.row IS NOT NULL);

  UPDATE jobs AS j SET available_at = coalesce(j.parked_from, j.available_at), parked_from = NULL
   WHERE j.ctid = ANY (ARRAY(SELECT p.ctid FROM jobs AS p WHERE p.ctid = ANY (_chosen) FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS _unparked = ROW_COUNT;

  UPDATE limit_keys AS l SET parked = n.parked, watched = n.watched, wake_at = n.wake_at
    FROM (SELECT k.ctid AS row, p.parked, w.watched,
                 CASE WHEN NOT p.parked THEN NULL
                      WHEN _unparked < cardinality(_chosen) OR NOT (w.watched OR k.places IS NULL) THEN _now
                      WHEN k.held_until > _now THEN k.held_until
                      WHEN k.places IS NULL AND k.tokens IS NULL THEN _now
                      WHEN k.tokens < coalesce(k.places, 10000)
                           AND k.tokens < coalesce(s.key_burst, greatest(1, ceil(s.key_rate)))
                      THEN bucket_reaches((k.tokens + 1) * 1000000, s.key_rate, k.level, k.level_at) END AS wake_at
            FROM (SELECT l.*, l.ctid, u.places, u.tokens, u.seen
                    FROM (SELECT _space AS space, u.*,
                                 ((u.queue, u.key) IN (SELECT s.queue, s.key FROM unnest(_seen_queues, _seen_keys)
                                                                                   AS s (queue, key))) IS TRUE AS seen
                            FROM unnest(_queues, _keys, _places, _tokens) AS u (queue, key, places, tokens)
                          OFFSET 0) AS u
                    JOIN limit_keys AS l ON l.space = ANY (ARRAY[u.space]) AND l.queue = u.queue AND l.key = u.key) AS k
           CROSS JOIN LATERAL (SELECT * FROM settings AS s
                                WHERE s.space = _space AND s.queue = k.queue AND s.type = '' OFFSET 0) AS s
           CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM jobs AS j
                                               WHERE j.space = _space AND j.queue = k.queue AND j.limit_key = k.key
                                                 AND j.parked_from IS NOT NULL OFFSET 0)) AS p (parked)
           CROSS JOIN LATERAL (SELECT k.watched OR k.seen) AS w (watched)
          OFFSET 0) AS n
   WHERE l.ctid = n.row AND (l.parked, l.watched, l.wake_at) IS DISTINCT FROM (n.parked, n.watched, n.wake_at);
END $$;
