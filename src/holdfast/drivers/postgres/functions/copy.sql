-- Store jobs by COPY: what is prepared before it, and what is finished after it.

-- name: prepare_copy
-- Before a COPY into jobs, in the same transaction: notify listeners, and return the instant of the call and the
-- dedupe window of each lane's queue. The arrays describe lanes, with the first run_at of each.
--
-- Locks: those of notify_listeners. Index: jobs_lane, the primary key of settings.
CREATE OR REPLACE FUNCTION prepare_copy(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _queues text[],
  _types text[], _priorities integer[], _run_at bigint[], OUT now bigint, OUT windows bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  now := effective_now(_caller_now);
  IF _channel IS NOT NULL THEN
    PERFORM notify_listeners(_space, _channel, _owns_transaction, now, _queues, _types, _priorities, _run_at);
  END IF;
  windows := ARRAY(
    SELECT coalesce((SELECT s.dedupe_window FROM settings AS s
                      WHERE s.space = _space AND s.queue = a.queue AND s.type = ''), _window)
      FROM unnest(_queues) WITH ORDINALITY AS a (queue, item) ORDER BY a.item);
END $$;


-- name: prepare_leased_copy
-- Before a COPY of jobs that are leased when they are stored, in the same transaction: return the instant of the
-- call, the dedupe window of the queue and one fence per job. fences is NULL if the queue is paused or limited: then
-- the jobs are enqueued without leases. No listener is notified, because no job becomes ready.
--
-- Locks: none. Index: the primary key of settings.
CREATE OR REPLACE FUNCTION prepare_leased_copy(
  _space text, _caller_now bigint, _window bigint, _queue text, _count integer,
  OUT now bigint, OUT dedupe_window bigint, OUT fences bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  now := effective_now(_caller_now);
  IF EXISTS (SELECT FROM settings AS s
              WHERE s.space = _space AND s.queue = _queue
                AND (greatest(s.paused_until, s.held_until) > now OR s.max_inflight IS NOT NULL OR s.rate IS NOT NULL
                     OR s.probing)) THEN
    RETURN;
  END IF;
  dedupe_window := coalesce((SELECT s.dedupe_window FROM settings AS s
                           WHERE s.space = _space AND s.queue = _queue AND s.type = ''), _window);
  fences := ARRAY(SELECT nextval('counter') FROM generate_series(1, _count));
END $$;


-- name: finish_copy
-- After a COPY into jobs, in the same transaction: record the domains of the jobs, and return whether `ended` has an
-- id between these two.
--
-- Locks: none. Index: the primary key of ended, one probe for the whole batch.
-- Shape: new ids grow with time, so the answer is nearly always false. Only if it is true does the driver send all
-- ids to refuse_ended_ids.
CREATE OR REPLACE FUNCTION finish_copy(_space text, _least text, _most text, _queues text[], _domains text[])
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO arrivals (space, queue, domain)
  SELECT _space, d.queue, d.domain FROM unnest(_queues, _domains) AS d (queue, domain);
  RETURN EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id BETWEEN _least AND _most LIMIT 1);
END $$;


-- name: refuse_ended_ids
-- After a COPY into jobs, in the same transaction: raise unique_violation if one of these ids has ended before, as
-- the COPY itself does for an id in jobs. The driver then rolls back and calls enqueue.
--
-- Locks: none. Index: the primary key of ended.
CREATE OR REPLACE FUNCTION refuse_ended_ids(_space text, _ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM unnest(_ids) AS a (id)
              WHERE EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = a.id OFFSET 0)) THEN
    RAISE unique_violation USING MESSAGE = 'a job of this batch has ended before';
  END IF;
END $$;
