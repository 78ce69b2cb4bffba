-- End leases that expired while their worker could not reach the store: the attempts count, but no crashes. If such a
-- lease was ended as expired already, take its crash back, unless the job has ended (law L7). Return whether each item
-- was one of these, in order.
--
-- Locks: the rows of the jobs, sorted by id, then their domains. Index: the primary key of jobs.
-- Shape: item by item, because a batch may name several leases of one job, and a lease twice. Outages are rare.
CREATE OR REPLACE FUNCTION report_outage(_space text, _caller_now bigint, _ids text[], _tokens text[])
RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
  _now bigint;
  _transitions transition[];
  _answers boolean[] := '{}';
  _queues text[];         -- of end_leases
  _domains text[];
  _offsets bigint[];
  _dead text[];
  _key_queue text;
  _key text;
BEGIN
  PERFORM FROM (SELECT _space AS space, u.id FROM unnest(_ids) AS u (id) ORDER BY u.id COLLATE "C" OFFSET 0) AS a
             JOIN jobs AS j ON j.space = ANY (ARRAY[a.space]) AND j.id = a.id
              FOR UPDATE OF j;
  _now := effective_now(_caller_now);
  FOR _item IN 1 .. cardinality(_ids) LOOP
    SELECT array_agg(after_expiry(_item, j.ctid, j, _now, true)) INTO _transitions FROM jobs AS j
     WHERE j.space = _space AND j.id = _ids[_item] AND j.token = _tokens[_item] AND j.expires_at <= _now;
    IF _transitions IS NOT NULL THEN
      SELECT _queues || e.queues, _domains || e.domains, _offsets || e.offsets, _dead || e.dead
        INTO _queues, _domains, _offsets, _dead
        FROM end_leases(_space, _now, _transitions) AS e;
      _answers := _answers || true;
    ELSE
      -- A requeued job has the last token of its earlier life, and no crash.
      UPDATE jobs AS j SET crashes = j.crashes - 1, last_verb = 'expired uncounted'
       WHERE j.space = _space AND j.id = _ids[_item] AND j.last_token = _tokens[_item] AND j.last_verb = 'expired'
         AND j.crashes > 0
      RETURNING j.queue, j.limit_key INTO _key_queue, _key;
      _answers := _answers || FOUND;
      IF _key IS NOT NULL THEN  -- the job may share a child again: it has changed its lane
        PERFORM note_key_changes(_space, ARRAY[_key_queue], ARRAY[_key], true);
      END IF;
    END IF;
  END LOOP;

  IF _domains IS NOT NULL THEN
    PERFORM pass_turns(_space, _now, _queues, _domains, _offsets, _dead, false);
  END IF;
  RETURN _answers;
END $$;
