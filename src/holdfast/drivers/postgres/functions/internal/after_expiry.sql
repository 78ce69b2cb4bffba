-- Return the transition of a job whose lease expired: model/transition.py after_expiry, in SQL. A job that had not begun
-- gets its attempt back and is a suspect; after an outage of the store no crash is counted (law L7).
--
-- Locks: none; the caller has locked the row. Index: none. Called once per job: no settings, no queries.
CREATE OR REPLACE FUNCTION after_expiry(_item integer, _job_ctid tid, j jobs, _now bigint, _in_outage boolean)
RETURNS transition LANGUAGE plpgsql STABLE AS $$
DECLARE
  t transition;
  _begun boolean := NOT j.prefetched OR j.started_at IS NOT NULL;
  _counts_crash boolean := _begun AND NOT _in_outage;
BEGIN
  t.item := _item;
  t.job_ctid := _job_ctid;
  -- No settlement has one of these verbs, so none is a repeat of an expiry (law L6).
  t.verb := CASE WHEN _counts_crash THEN 'expired' ELSE 'expired uncounted' END;
  t.attempts := CASE WHEN _begun THEN j.attempts ELSE greatest(0, j.attempts - 1) END;
  t.crashes := CASE WHEN _counts_crash THEN least(j.crashes, 2147483646) + 1 ELSE j.crashes END;  -- saturates
  t.last_error := j.last_error;
  t.failed_at := j.failed_at;
  t.released_for := 0;
  t.run_at := j.run_at;
  t.available_at := j.available_at;
  t.detail := CASE WHEN NOT _begun THEN 'not begun' WHEN _in_outage THEN 'outage of the store' ELSE '' END;
  t.error := '';
  t.ending := 'expired';
  t.suspect := NOT _begun;
  IF j.cancel_requested THEN
    t.state := 'cancelled';
    t.ending := 'cancelled';
    t.detail := 'lease expired';
  ELSIF _begun AND j.attempts >= j.max_attempts THEN
    t.state := 'dead';
    t.dead_reason := 'lease expired';
    t.dead_at := _now;
  ELSIF _begun AND t.crashes >= j.max_crashes THEN
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
