-- Return the instant that decides about a call: the caller's if it is set, else the server's clock (law L1).
--
-- Locks: none. Index: none.
-- Shape: a SQL expression, so that the planner inlines it into queries. clock_timestamp() moves on inside a
-- transaction: a verb calls this function after it has waited for locks, and now() would be the time before the
-- wait.
CREATE OR REPLACE FUNCTION effective_now(_caller_now bigint) RETURNS bigint LANGUAGE sql VOLATILE
RETURN coalesce(_caller_now, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
