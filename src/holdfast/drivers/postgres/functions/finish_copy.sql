-- After a COPY into jobs, in the same transaction: record the domains of the jobs, and return whether `ended` has an
-- id between these two.
--
-- Locks: none. Index: the primary key of ended, one probe for the whole batch.
-- Shape: new ids grow with time, so the answer is nearly always false. Only if it is true does the driver send all
-- ids to refuse_ended_ids.
CREATE OR REPLACE FUNCTION finish_copy(_space text, _least text, _most text, _queues text[], _domains text[])
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO arrivals (space, queue, domain)
  SELECT _space, d.queue, d.domain FROM unnest(_queues, _domains) AS d (queue, domain);
  RETURN EXISTS (SELECT FROM ended AS e WHERE e.space = _space AND e.id BETWEEN _least AND _most LIMIT 1);
END $$;
