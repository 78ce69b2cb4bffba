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
