-- Return whether a queue of these waits for gaps, or has rows in `domains`: a halt, a gap or a moved start. If not, the first
-- job of a domain has the turn, and nothing else is to be known.
--
-- Locks: none. Index: the primary keys of domains and settings.
CREATE OR REPLACE FUNCTION has_special_domains(_space text, _queues text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM (SELECT DISTINCT u.queue FROM unnest(_queues) AS u (queue)) AS q
     WHERE EXISTS (SELECT FROM domains AS d WHERE d.space = _space AND d.queue = q.queue OFFSET 0)
        OR EXISTS (SELECT FROM settings AS s
                    WHERE s.space = _space AND s.queue = q.queue AND s.type = '' AND s.gaps = 'wait' OFFSET 0));
END $$;
