-- Store one new job: the same as `enqueue` with a batch of one, in two thirds of its time. `existing` is NULL if the job
-- was stored (law L12).
--
-- Each column of the job is one parameter, named after the column. The job has no offset. Only a job whose id and key have
-- never been used is stored here. Everything else is left to `enqueue`.
--
-- Locks: as enqueue. Index: jobs_lane, the primary keys of jobs, ended and dedupe.
-- Shape: as in enqueue, the job is inserted before it is looked up in `ended`. The key is looked up in a statement of its
-- own: as a part of a condition, the query would be started also for a job without a key.
CREATE OR REPLACE FUNCTION enqueue_one(
  _space text, _caller_now bigint, _channel text, _owns_transaction boolean, _window bigint, _digest bytea,
  {stored_scalars}, OUT existing text, OUT conflict boolean
) LANGUAGE plpgsql AS $$
DECLARE
  _now bigint := effective_now(_caller_now);
  _is_key_known boolean := false;
  _is_inserted boolean := false;
  _is_new boolean;
BEGIN
  IF _channel IS NOT NULL AND coalesce(_run_at, _now) <= _now
     AND NOT EXISTS (SELECT FROM jobs AS j
                      WHERE j.space = _space AND j.queue = _queue AND j.type = _type AND j.priority = _priority
                        AND NOT j.isolated AND j.state = 'ready' AND j.turn AND j.available_at <= _now)
     AND (NOT _owns_transaction OR pg_try_advisory_xact_lock(1212106567, hashtext(_space)))
  THEN
    PERFORM pg_notify(_channel, _space);
  END IF;

  IF _idempotency_key IS NOT NULL THEN
    _is_key_known := EXISTS (
      SELECT FROM dedupe AS d WHERE d.space = _space AND d.queue = _queue AND d.key = _idempotency_key);
  END IF;
  IF NOT _is_key_known THEN
    INSERT INTO jobs ({stored_columns}, space, turn, available_at, enqueued_at)
    VALUES ({stored_arguments}, _space, _domain IS NULL, coalesce(_run_at, _now), _now)
    ON CONFLICT (space, id) DO NOTHING;
    _is_inserted := FOUND;
  END IF;
  _is_new := _is_inserted AND NOT EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id = _id);

  IF _is_new AND _idempotency_key IS NOT NULL THEN
    INSERT INTO dedupe (space, queue, key, job_id, digest, until, while_queued)
    VALUES (_space, _queue, _idempotency_key, _id, _digest,
            _now + coalesce(CASE WHEN _unique_for < 0 THEN 0 ELSE _unique_for END,
                            (SELECT s.dedupe_window FROM settings AS s
                              WHERE s.space = _space AND s.queue = _queue AND s.type = ''), _window),
            coalesce(_unique_for < 0, false))
    ON CONFLICT (space, queue, key) DO NOTHING;
    _is_new := FOUND;
  END IF;

  IF NOT _is_new THEN
    IF _is_inserted THEN
      DELETE FROM jobs AS j WHERE j.space = _space AND j.id = _id;
    END IF;
    SELECT e.existing, e.conflict INTO existing, conflict
      FROM enqueue(_space, _now, NULL, _owns_transaction, _window, ARRAY[_digest], {stored_singletons}) AS e;
  ELSIF _domain IS NOT NULL THEN
    INSERT INTO arrivals (space, queue, domain) VALUES (_space, _queue, _domain);
  END IF;
END $$;
