-- Dead and cancelled jobs without their payloads and results, to see whether their rows can be read.
-- Index: the primary key.
SELECT {payloadless_columns} FROM holdfast.ended
 WHERE space = %(space)s AND id = ANY (%(ids)s) AND state <> 'done'
