-- The id up to which find.sql has read: where the first of its reads ended after %(rows)s rows. NULL if none did, or only
-- behind %(last)s, the last id of a full page. Index: the primary keys and ended_few, read without their tables.
SELECT {nearest}(ends.id)
  FROM ((SELECT id FROM holdfast.jobs
          WHERE %(live)s AND space = %(space)s AND id {beyond} %(after)s AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)
        UNION ALL
        (SELECT id FROM holdfast.ended
          WHERE %(done)s AND space = %(space)s AND id {beyond} %(after)s AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)
        UNION ALL
        (SELECT id FROM holdfast.ended
          WHERE %(dead)s AND space = %(space)s AND state = 'dead' AND id {beyond} %(after)s
            AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)
        UNION ALL
        (SELECT id FROM holdfast.ended
          WHERE %(cancelled)s AND space = %(space)s AND state = 'cancelled' AND id {beyond} %(after)s
            AND (%(last)s::text IS NULL OR id {up_to} %(last)s)
          ORDER BY id {direction} OFFSET %(rows)s - 1 LIMIT 1)) AS ends
