-- A page of one kind in order of keys, from :start on and below :stop (NULL: to the end).
SELECT key, value, version, expires_at FROM holdfast.registry
 WHERE space = %(space)s AND kind = %(kind)s AND key >= %(start)s AND key > %(after)s
   AND (%(stop)s::text IS NULL OR key < %(stop)s)
   AND (expires_at IS NULL OR expires_at > (SELECT holdfast.instant_1(%(now)s)))
 ORDER BY key LIMIT %(limit)s
