-- Halt the domains of jobs that failed for good, in queues that halt them. A domain that is halted stays as it is.
-- :jobs is [[queue, domain, id], ...]. Index: the primary keys.
INSERT INTO holdfast_domains (space, queue, domain, halted_by, halted_at)
SELECT :space, json_extract(given.value, '$[0]'), json_extract(given.value, '$[1]'),
       json_extract(given.value, '$[2]'), :now
  FROM json_each(:jobs) AS given
 CROSS JOIN holdfast_settings AS s
    ON s.space = :space AND s.queue = json_extract(given.value, '$[0]') AND s.type = '' AND s.on_exhausted = 'halt'
 WHERE true
ON CONFLICT (space, queue, domain) DO UPDATE SET halted_by = excluded.halted_by, halted_at = excluded.halted_at
 WHERE halted_by IS NULL
