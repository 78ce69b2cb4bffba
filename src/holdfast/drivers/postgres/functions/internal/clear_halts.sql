-- Let the domains go on that these jobs halted, each in its own domain. The next reserve assigns their turns.
--
-- Locks: the domains, then their rows. Index: the primary key of domains. Shape: see README.md, Stable plans.
CREATE OR REPLACE FUNCTION clear_halts(_space text, _ids text[], _queues text[], _domains text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_domains(_space, _queues, _domains);
  UPDATE domains AS d SET halted_by = NULL, halted_at = NULL
    FROM (SELECT _space AS space, u.* FROM unnest(_ids, _queues, _domains) AS u (id, queue, domain) OFFSET 0) AS a
   WHERE d.space = ANY (ARRAY[a.space]) AND d.queue = a.queue AND d.domain = a.domain AND d.halted_by = a.id;
  INSERT INTO arrivals (space, queue, domain)
  SELECT DISTINCT _space, a.queue, a.domain FROM unnest(_queues, _domains) AS a (queue, domain);
END $$;
