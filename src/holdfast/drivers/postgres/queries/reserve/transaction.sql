-- The number of this transaction.
SELECT pg_current_xact_id()::text::bigint
