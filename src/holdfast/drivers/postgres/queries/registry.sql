-- Read small entries.

-- name: read
-- Entries of one kind that have not expired. Index: the primary key.
SELECT key, value, version, expires_at FROM holdfast.registry
 WHERE space = %(space)s AND kind = %(kind)s AND key = ANY (%(keys)s)
   AND (expires_at IS NULL OR expires_at > (SELECT holdfast.effective_now(%(now)s)))


-- name: scan
-- A page of the entries of one kind in the order of keys, from `start` up to but without `stop` (NULL: to the end).
-- Index: the primary key.
SELECT key, value, version, expires_at FROM holdfast.registry
 WHERE space = %(space)s AND kind = %(kind)s AND key >= %(start)s AND key > %(after)s
   AND (%(stop)s::text IS NULL OR key < %(stop)s)
   AND (expires_at IS NULL OR expires_at > (SELECT holdfast.effective_now(%(now)s)))
 ORDER BY key LIMIT %(limit)s
