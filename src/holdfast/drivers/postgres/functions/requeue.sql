-- Make dead or cancelled jobs ready again, in the order of the arrays, after the jobs that are ready now. Return their ids.
-- A job that halted its domain keeps its place, and the domain is not halted any more. A job whose offset another job has,
-- since forget_domain, stays as it is.
--
-- Locks: the rows of the jobs in ended, sorted by id, then the domains that go on. It may wait for a transaction that stores
-- the same offset, and holds no domain then. The next reserve assigns the turns (arrivals). Index: the primary keys of ended
-- and domains, jobs_offset. Shape: see README.md, Stable plans. IS TRUE keeps ended_few out of the plan: by that index the
-- dead letters of the space would be read and locked in its order.
CREATE OR REPLACE FUNCTION requeue(_space text, _caller_now bigint, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _seqs bigint[] := ARRAY(SELECT nextval('jobs_seq_seq') FROM generate_series(1, cardinality(_ids)));
  _repeated text[];       -- ids of jobs whose offset a job before them in the arrays has
  _removed text[];
  _halting text[];
  _queues text[];         -- of the domains that they halted
  _domains text[];
BEGIN
  _repeated := ARRAY(
    SELECT r.id
      FROM (SELECT e.id, row_number() OVER (PARTITION BY e.queue, e.domain, e."offset" ORDER BY a.item) AS place
              FROM unnest(_ids) WITH ORDINALITY AS a (id, item)
             CROSS JOIN LATERAL (SELECT * FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0) AS e
             WHERE e."offset" IS NOT NULL AND e.state IN ('dead', 'cancelled')) AS r
     WHERE r.place > 1);
  WITH removed AS (
    DELETE FROM ended AS e
     USING (SELECT _space AS space, u.* FROM unnest(_ids) WITH ORDINALITY AS u (id, item)
             ORDER BY u.id COLLATE "C" OFFSET 0) AS a
     WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id AND (e.state IN ('dead', 'cancelled')) IS TRUE
       AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.space = _space AND j.id = e.id OFFSET 0)
       AND e.id NOT IN (SELECT unnest(_repeated))
       AND (e."offset" IS NULL
            OR NOT EXISTS (SELECT FROM jobs AS j
                            WHERE j.space = _space AND j.queue = e.queue AND j.domain = e.domain AND j."offset" = e."offset"
                           OFFSET 0))
    RETURNING e.*, a.item, e.domain IS NOT NULL
      AND EXISTS (SELECT FROM domains AS d
                   WHERE d.space = _space AND d.queue = e.queue AND d.domain = e.domain AND d.halted_by = e.id
                  OFFSET 0) AS is_halting
  ), recorded AS (
    INSERT INTO ledger (space, job_id, type, queue, domain, "offset", attempt, worker, enqueued_at, available_at,
                        ended_at, ending, state, detail, error)
    SELECT r.space, r.id, r.type, r.queue, r.domain, r."offset", r.attempts, '', r.enqueued_at, r.available_at, _now,
           'requeued', 'ready', '', ''
      FROM removed AS r ORDER BY r.item
  ), arrived AS (
    INSERT INTO arrivals SELECT DISTINCT r.space, r.queue, r.domain FROM removed AS r WHERE r.domain IS NOT NULL
  ), inserted AS (
    INSERT INTO jobs (seq, {fixed_columns}, space, turn, available_at, enqueued_at, noted, last_verb, last_token, last_error,
                      failed_at) OVERRIDING SYSTEM VALUE
    SELECT CASE WHEN r.is_halting THEN r.seq ELSE _seqs[r.item] END, {r.fixed_columns}, r.space, r.domain IS NULL, _now,
           r.enqueued_at, r.noted, r.last_verb, r.last_token, r.last_error, r.failed_at
      FROM removed AS r
     ORDER BY CASE WHEN r."offset" IS NOT NULL THEN ROW(r.queue, r.domain, r."offset") END, r.item
  )
  SELECT array_agg(r.id), array_agg(r.id) FILTER (WHERE r.is_halting), array_agg(r.queue) FILTER (WHERE r.is_halting),
         array_agg(r.domain) FILTER (WHERE r.is_halting)
    INTO _removed, _halting, _queues, _domains FROM removed AS r;
  IF _halting IS NOT NULL THEN
    PERFORM clear_halts(_space, _halting, _queues, _domains);
  END IF;
  RETURN coalesce(_removed, '{}');
END $$;
