-- Lock these domains until the end of the transaction: one transaction at a time moves the turn of a domain.
--
-- Locks: advisory, in ascending order. Index: none.
-- Shape: 512 buckets instead of one lock per domain. A batch can name ten thousand domains, and the lock table of
-- the server is small. Two domains in one bucket only wait for each other. The subquery is not flattened (OFFSET 0), so the
-- locks are taken in its order.
CREATE OR REPLACE FUNCTION lock_domains(_space text, _queues text[], _domains text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(1212106566, b.bucket)
     FROM (SELECT DISTINCT (hashtextextended(_space || E'\n' || d.queue || E'\n' || d.domain, 0) & 511)::integer AS bucket
             FROM unnest(_queues, _domains) AS d (queue, domain) ORDER BY bucket OFFSET 0) AS b;
END $$;
