-- Add the offsets of the acked jobs to the ended offsets of their domains: an offset behind a range extends it, another
-- one is a range of its own. An offset in front of a range is left out: the two become one row. A domain has at most one
-- job in flight, so no two acks of a batch have the same domain. Index: the primary key, a few probes per job.
INSERT INTO holdfast_ended_offsets (space, queue, domain, first, last)
SELECT :space, a.queue, a.domain,
       coalesce((SELECT CASE WHEN r.last >= a."offset" - 1 THEN r.first END FROM holdfast_ended_offsets AS r
                  WHERE r.space = :space AND r.queue = a.queue AND r.domain = a.domain AND r.first <= a."offset"
                  ORDER BY r.first DESC LIMIT 1), a."offset"),
       a."offset"
  FROM holdfast_acking AS a
 WHERE a."offset" IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast_ended_offsets AS r
                    WHERE r.space = :space AND r.queue = a.queue AND r.domain = a.domain AND r.first = a."offset" + 1)
ON CONFLICT (space, queue, domain, first) DO UPDATE SET last = max(last, excluded.last)
