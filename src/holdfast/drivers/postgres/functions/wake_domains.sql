-- After the settings about gaps were replaced: let the next reserve judge every domain of the queue.
--
-- Locks: none. Index: jobs_offset, one probe per domain. Jobs without an offset wait for no gap.
CREATE OR REPLACE FUNCTION wake_domains(_space text, _queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO arrivals (space, queue, domain)
  WITH RECURSIVE found (domain) AS (
    SELECT (SELECT j.domain FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j."offset" IS NOT NULL
             ORDER BY j.domain, j."offset" LIMIT 1)
    UNION ALL
    SELECT (SELECT j.domain FROM jobs AS j WHERE j.space = _space AND j.queue = _queue AND j.domain > f.domain
               AND j."offset" IS NOT NULL ORDER BY j.domain, j."offset" LIMIT 1)
      FROM found AS f WHERE f.domain IS NOT NULL
  )
  SELECT _space, _queue, f.domain FROM found AS f WHERE f.domain IS NOT NULL;
END $$;
