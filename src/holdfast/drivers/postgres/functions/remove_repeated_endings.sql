-- Remove the endings of jobs that are not ended: an id stands in jobs or in ended. Only changes from outside of the
-- driver put an id in both. The job in jobs may be leased, so it stays, and its ending replaces the earlier one; the
-- ledger keeps the rows of both.
--
-- Locks: the removed rows. Index: the primary keys of jobs and ended; it reads all jobs of the space. The driver calls
-- this function when ending a job has failed with a unique violation, and then repeats the call.
CREATE OR REPLACE FUNCTION remove_repeated_endings(_space text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM ended AS e
   USING (SELECT j.space, j.id FROM jobs AS j WHERE j.space = _space ORDER BY j.id OFFSET 0) AS a
   WHERE e.space = ANY (ARRAY[a.space]) AND e.id = a.id;
END $$;
