-- Whether the space has more open jobs, ended jobs, and dead or cancelled jobs than a limit; and the pages of both tables.
-- Index: the primary keys and ended_few.
SELECT EXISTS (SELECT FROM holdfast.jobs WHERE space = %(space)s ORDER BY id OFFSET %(rows)s LIMIT 1),
       EXISTS (SELECT FROM holdfast.ended WHERE space = %(space)s ORDER BY id OFFSET %(rows)s LIMIT 1),
       EXISTS (SELECT FROM holdfast.ended WHERE space = %(space)s AND state <> 'done'
                ORDER BY state, id OFFSET %(rows)s LIMIT 1),
       pg_relation_size('holdfast.jobs'::regclass) / current_setting('block_size')::bigint,
       pg_relation_size('holdfast.ended'::regclass) / current_setting('block_size')::bigint
