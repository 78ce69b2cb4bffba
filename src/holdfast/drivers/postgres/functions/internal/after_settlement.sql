-- Return the transition of a job whose lease a valid settlement ends: model/transition.py after_settlement, in SQL.
--
-- Locks: none; the caller has locked the row. Index: none. Called once per job: no settings, no queries.
CREATE OR REPLACE FUNCTION after_settlement(
  _item integer, _job_ctid tid, j jobs, _now bigint, _verb text, _started bigint, _detail text, _result bytea,
  _delay bigint, _run_at bigint, _error text, _crashed boolean, _reason text, _budget bigint
) RETURNS transition LANGUAGE plpgsql STABLE AS $$
DECLARE
  t transition;
BEGIN
  t.item := _item;
  t.job_ctid := _job_ctid;
  t.verb := _verb;
  t.started_at := _started;
  t.attempts := j.attempts;
  t.crashes := j.crashes;
  t.run_at := j.run_at;
  t.available_at := j.available_at;
  t.last_error := j.last_error;
  t.failed_at := j.failed_at;
  t.released_for := 0;
  t.detail := _detail;
  t.error := '';
  t.suspect := false;

  IF _verb = 'ack' THEN
    t.ending := 'acked';
    t.state := 'done';
    t.result := _result;

  ELSIF j.cancel_requested THEN
    t.ending := 'cancelled';
    t.state := 'cancelled';
    IF _verb = 'release' THEN
      t.attempts := greatest(0, j.attempts - 1);
    ELSE
      t.error := _error;
    END IF;
    IF t.error <> '' THEN
      t.last_error := t.error;
      t.failed_at := _now;
    END IF;
    IF _detail = '' THEN
      t.detail := 'cancelled at ' || _verb;
    END IF;

  ELSIF _verb = 'retry' THEN
    t.ending := 'retried';
    t.crashes := CASE WHEN _crashed THEN least(j.crashes, 2147483646) + 1 ELSE 0 END;
    t.last_error := _error;
    t.failed_at := _now;
    t.error := _error;
    IF j.attempts >= j.max_attempts THEN
      t.dead_reason := 'attempts exhausted';
    ELSIF t.crashes >= j.max_crashes THEN
      t.dead_reason := 'poison';
    END IF;
    IF t.dead_reason IS NULL THEN
      t.state := 'ready';
      t.run_at := coalesce(_run_at, CASE WHEN _delay > 0 THEN _now + _delay END);
      t.available_at := coalesce(t.run_at, _now);
    ELSE
      t.state := 'dead';
      t.dead_at := _now;
    END IF;

  ELSIF _verb = 'fail' THEN
    t.ending := 'failed';
    t.state := 'dead';
    t.last_error := _error;
    t.failed_at := _now;
    t.error := _error;
    t.dead_reason := _reason;
    t.dead_at := _now;

  ELSE
    t.ending := 'released';
    t.suspect := j.suspect;
    t.attempts := greatest(0, j.attempts - 1);
    -- A row that was changed by hand must not fail the batch: no number here exceeds its range.
    t.released_for := least(j.released_for, 253402300799999999) + _delay + greatest(0, _now - greatest(0, j.reserved_at));
    IF _delay > 0 THEN
      t.run_at := _now + _delay;
      t.available_at := _now + _delay;
    END IF;
    IF t.released_for > _budget THEN
      t.state := 'dead';
      t.dead_reason := 'released too long';
      t.dead_at := _now;
    ELSE
      t.state := 'ready';
    END IF;
  END IF;
  RETURN t;
END $$;
