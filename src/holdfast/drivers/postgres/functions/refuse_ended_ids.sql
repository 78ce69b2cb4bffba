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
