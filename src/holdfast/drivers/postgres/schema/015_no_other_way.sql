-- See 014_plans: it left a way. Where a table was known to be empty when a session planned, not only thought to be (queues
-- are drained, and vacuumed then), the planner read an index from end to end, though no condition asked for it: an
-- equality of two columns could be a merge join, for which the order of an index is worth something.
--
-- So keys are compared in forms of which no merge join can be made, and which only an index can answer: as arrays of one, or
-- as pairs. What may not be there is looked for with OFFSET 0, which keeps it from becoming a join at all. The functions
-- are the same in all else: this changes these conditions where they stand.
CREATE FUNCTION change_conditions(_function text, VARIADIC _changes text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _text text := pg_get_functiondef(_function::regproc);
  _changed text;
BEGIN
  FOR place IN 1 .. cardinality(_changes) BY 2 LOOP
    _changed := replace(_text, _changes[place], _changes[place + 1]);
    IF _changed = _text THEN
      RAISE 'nothing to change in %: %', _function, _changes[place];
    END IF;
    _text := _changed;
  END LOOP;
  EXECUTE _text;
END $$;

SELECT change_conditions(name, 'j.space = a.space AND j.id = a.id',
                            'j.space = ANY (ARRAY[a.space]) AND j.id = ANY (ARRAY[a.id])')
  FROM unnest(ARRAY['extend_1', 'refused_1', 'settle_1', 'ack_2', 'cancel_1']) AS name;

SELECT change_conditions(name, 'e.space = a.space AND e.id = a.id',
                            'e.space = ANY (ARRAY[a.space]) AND e.id = ANY (ARRAY[a.id])')
  FROM unnest(ARRAY['extend_1', 'refused_1', 'requeue_1', 'purge_1']) AS name;

SELECT change_conditions(name, 'n.space = _space AND n.job_id = g.id',
                            '(n.space, n.job_id) >= (_space, g.id) AND (n.space, n.job_id) <= (_space, g.id)')
  FROM unnest(ARRAY['purge_1', 'trim_1']) AS name;

SELECT change_conditions('enqueue_1',
  'ON j.space = _space AND j.id = a.id', 'ON (j.space, j.id) >= (_space, a.id) AND (j.space, j.id) <= (_space, a.id)',
  'ON e.space = _space AND e.id = a.id', 'ON (e.space, e.id) >= (_space, a.id) AND (e.space, e.id) <= (_space, a.id)',
  'WHERE j.space = _space AND j.id = a.id)', 'WHERE j.space = _space AND j.id = a.id OFFSET 0)',
  'WHERE e.space = _space AND e.id = a.id)', 'WHERE e.space = _space AND e.id = a.id OFFSET 0)',
  'WHERE j.space = _space AND j.id = d.job_id)', 'WHERE j.space = _space AND j.id = d.job_id OFFSET 0)');

-- A key is looked up by its own index only: of two that begin with the space, on an empty table, either seems as good. One that
-- has a condition is not thought of unless it is asked for.
CREATE INDEX dedupe_expiry ON dedupe (space, until) WHERE until > 0;
DROP INDEX dedupe_until;

SELECT change_conditions('trim_1',
  'o.until <= _now', 'o.until > 0 AND o.until <= _now',
  'j.id = o.job_id)', 'j.id = o.job_id OFFSET 0)',
  'e.id = o.job_id)', 'e.id = o.job_id OFFSET 0)');

DROP FUNCTION change_conditions;
