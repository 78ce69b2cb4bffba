-- Rows of the registry, if they have not expired.
SELECT key, value, version, expires_at FROM holdfast.registry
 WHERE space = %(space)s AND kind = %(kind)s AND key = ANY (%(keys)s)
   AND (expires_at IS NULL OR expires_at > (SELECT holdfast.instant_1(%(now)s)))
