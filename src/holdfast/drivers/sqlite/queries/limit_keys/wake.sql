-- Let the next reserve look at the parked jobs of these keys. :keys is [[queue, key], ...]. Index: the primary key.
UPDATE holdfast_limit_keys SET wake_at = 0
 WHERE space = :space AND parked
   AND (queue, key) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:keys))
