-- What a reserve needs beside its function.

-- name: replace_id
-- Give a leased job whose id is no id one that every verb accepts. Index: the primary key.
UPDATE holdfast.jobs SET id = %(id)s WHERE space = %(space)s AND id = %(stored)s AND token = %(token)s


-- name: transaction
-- The number of this transaction.
SELECT pg_current_xact_id()::text::bigint
