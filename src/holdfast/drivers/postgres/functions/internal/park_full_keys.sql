-- Check the jobs of keyed queues that a reserve has picked against the limits of their keys. If a key allows fewer, park up to 5,000 due
-- jobs of all keys that are full then, whatever their types; the caller picks again. _next is a job at which the answer
-- of the reserve would end. With lanes (_queues, ...), the keys of the first 1,000 jobs of each lane are checked, too: many
-- full keys, with a few jobs each, do not need one pick for each of them.
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
  _full_queues text[];
  _full_keys text[];
  _kept tid[];             -- jobs with keys that their keys allow
  _is_over boolean;
BEGIN
  allowed := _taken;
  parked := 0;
  SELECT array_agg(k.queue) FILTER (WHERE k.is_picked), array_agg(k.key) FILTER (WHERE k.is_picked),
         array_agg(k.queue), array_agg(k.key)
    INTO key_queues, keys, _judged_queues, _judged_keys
    FROM (SELECT c.queue, c.key, bool_or(c.is_picked) AS is_picked
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

  WITH judged AS (
    SELECT a.queue, a.key, a.free, NULL::tid AS job_ctid, NULL::integer AS priority, NULL::bigint AS available_at,
           NULL::bigint AS seq
      FROM key_allowances(_space, _now, _judged_queues, _judged_keys) AS a
    UNION ALL
    SELECT j.queue, j.limit_key, NULL, j.ctid, j.priority, j.available_at, j.seq
      FROM unnest(_taken || _next) AS t (job_ctid) JOIN jobs AS j ON j.ctid = t.job_ctid
     WHERE j.limit_key IS NOT NULL AND j.queue = ANY (_keyed)
  ), ranked AS (
    SELECT u.queue, u.key, u.job_ctid, max(u.free) OVER of_key AS free, count(u.job_ctid) OVER of_key AS wanted,
           count(u.job_ctid) OVER (PARTITION BY u.queue, u.key ORDER BY u.priority DESC, u.available_at, u.seq
                                   ROWS UNBOUNDED PRECEDING) AS place
      FROM judged AS u WINDOW of_key AS (PARTITION BY u.queue, u.key)
  )
  SELECT bool_or(r.wanted > r.free), array_agg(r.job_ctid) FILTER (WHERE r.job_ctid IS NOT NULL AND r.place <= r.free),
         array_agg(r.queue) FILTER (WHERE r.job_ctid IS NULL AND r.wanted >= r.free),
         array_agg(r.key) FILTER (WHERE r.job_ctid IS NULL AND r.wanted >= r.free)
    INTO _is_over, _kept, _full_queues, _full_keys
    FROM ranked AS r;
  IF NOT _is_over THEN
    RETURN;
  END IF;
  allowed := ARRAY(
    SELECT t.job_ctid FROM unnest(_taken) WITH ORDINALITY AS t (job_ctid, item) JOIN jobs AS j ON j.ctid = t.job_ctid
     WHERE j.limit_key IS NULL OR j.queue <> ALL (_keyed) OR (t.job_ctid IN (SELECT unnest(_kept))) IS TRUE ORDER BY t.item);

  WITH RECURSIVE lanes (queue, key, type, isolated, priority) AS (
    SELECT k.queue, k.key, first.*
      FROM unnest(_full_queues, _full_keys) AS k (queue, key) CROSS JOIN LATERAL (
        SELECT j.type, j.isolated, j.priority FROM jobs AS j
         WHERE j.space = _space AND j.queue = k.queue AND j.limit_key = k.key AND j.token IS NULL AND j.turn
           AND j.parked_from IS NULL
         ORDER BY j.type, j.isolated, j.priority, j.available_at, j.seq LIMIT 1) AS first
    UNION ALL
    SELECT l.queue, l.key, next.*
      FROM lanes AS l CROSS JOIN LATERAL (
        SELECT j.type, j.isolated, j.priority FROM jobs AS j
         WHERE j.space = _space AND j.queue = l.queue AND j.limit_key = l.key AND j.token IS NULL AND j.turn
           AND j.parked_from IS NULL AND (j.type, j.isolated, j.priority) > (l.type, l.isolated, l.priority)
         ORDER BY j.type, j.isolated, j.priority, j.available_at, j.seq LIMIT 1) AS next
  ), changed AS (
    UPDATE jobs AS j SET parked_from = j.available_at, available_at = 253402300799999999
     WHERE j.ctid = ANY (ARRAY(
       SELECT due.row
         FROM lanes AS l CROSS JOIN LATERAL (
           SELECT j.ctid AS row FROM jobs AS j
            WHERE j.space = _space AND j.queue = l.queue AND j.limit_key = l.key AND j.type = l.type
              AND j.isolated = l.isolated AND j.priority = l.priority AND j.token IS NULL AND j.turn
              AND j.parked_from IS NULL AND j.available_at <= _now AND (j.ctid IN (SELECT unnest(_kept))) IS NOT TRUE
            ORDER BY j.available_at, j.seq LIMIT 5000 FOR UPDATE SKIP LOCKED) AS due
        LIMIT 5000))
    RETURNING j.queue, j.limit_key
  ), entered AS (
    INSERT INTO limit_keys AS l (space, queue, key, parked, wake_at)
    SELECT DISTINCT _space, c.queue, c.limit_key, true, _now FROM changed AS c
    ON CONFLICT (space, queue, key) DO UPDATE SET parked = true, watched = false, wake_at = _now WHERE NOT l.parked
  )
  SELECT count(*) INTO parked FROM changed;
END $$;
