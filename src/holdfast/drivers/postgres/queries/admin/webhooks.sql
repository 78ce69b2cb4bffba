-- The webhooks of jobs in any state, of those that have one. Index: both primary keys.
SELECT j.id, j.webhook FROM holdfast.jobs AS j
 WHERE j.space = %(space)s AND j.id = ANY (%(ids)s) AND j.webhook IS NOT NULL
UNION ALL
SELECT e.id, e.webhook FROM holdfast.ended AS e
 WHERE e.space = %(space)s AND e.id = ANY (%(ids)s) AND e.webhook IS NOT NULL
