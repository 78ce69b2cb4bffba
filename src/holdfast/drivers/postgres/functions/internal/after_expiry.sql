-- Return the transition of a job whose lease expired: model/transition.py after_expiry, in SQL.
--
-- Locks: none; the caller has locked the row. Index: none. Called once per job: no settings, no queries.
CREATE OR REPLACE FUNCTION after_expiry(_item integer, _job_ctid tid, j jobs, _now bigint) RETURNS transition
LANGUAGE plpgsql STABLE AS $$
DECLARE
  t transition;
BEGIN
  t.item := _item;
  t.job_ctid := _job_ctid;
  t.verb := 'expired';  -- no settlement has this verb, so none is a repeat of it (law L6)
  t.attempts := j.attempts;
  t.crashes := least(j.crashes, 2147483646) + 1;  -- saturates, like every counter
  t.last_error := j.last_error;
  t.failed_at := j.failed_at;
  t.released_for := 0;
  t.run_at := j.run_at;
  t.available_at := j.available_at;
  t.detail := '';
  t.error := '';
  t.ending := 'expired';
  IF j.cancel_requested THEN
    t.state := 'cancelled';
    t.ending := 'cancelled';
    t.detail := 'lease expired';
  ELSIF j.attempts >= j.max_attempts THEN
    t.state := 'dead';
    t.dead_reason := 'lease expired';
    t.dead_at := _now;
  ELSIF t.crashes >= j.max_crashes THEN
    t.state := 'dead';
    t.dead_reason := 'poison';
    t.dead_at := _now;
  ELSE
    t.state := 'ready';
    t.run_at := NULL;
    t.available_at := least(j.expires_at, _now);
  END IF;
  RETURN t;
END $$;
