-- Free those of these idempotency keys that belong to jobs which were removed. :keys is [[queue, key], ...], :ids a list.
-- Index: the primary key of holdfast_dedupe.
DELETE FROM holdfast_dedupe
 WHERE (space, queue, key) IN (SELECT :space, json_extract(value, '$[0]'), json_extract(value, '$[1]')
                                 FROM json_each(:keys))
   AND job_id IN (SELECT value FROM json_each(:ids))
