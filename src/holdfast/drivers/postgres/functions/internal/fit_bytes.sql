-- Return the first of these jobs whose payloads have at most _max_bytes together; at least one.
--
-- Locks: none. Index: none, jobs by ctid.
CREATE OR REPLACE FUNCTION fit_bytes(_taken tid[], _max_bytes bigint) RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT s.job_ctid
      FROM (SELECT t.job_ctid, t.item,
                   sum(octet_length(j.payload)) OVER (ORDER BY t.item ROWS UNBOUNDED PRECEDING) AS total
              FROM unnest(_taken) WITH ORDINALITY AS t (job_ctid, item) JOIN jobs AS j ON j.ctid = t.job_ctid) AS s
     WHERE s.item = 1 OR s.total <= _max_bytes ORDER BY s.item);
END $$;
