-- Entries of one kind that have not expired. Index: the primary key.
SELECT key, value, version, expires_at FROM holdfast.registry
 WHERE space = %(space)s AND kind = %(kind)s AND key = ANY (%(keys)s)
   AND (expires_at IS NULL OR expires_at > (SELECT holdfast.effective_now(%(now)s)))
