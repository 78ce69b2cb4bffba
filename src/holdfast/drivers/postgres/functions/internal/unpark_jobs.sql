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
