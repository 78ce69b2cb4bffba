-- The jobs of this list that halt their domains. :jobs is [[queue, domain, id], ...]. Index: the primary key.
SELECT d.halted_by
  FROM json_each(:jobs) AS given
 CROSS JOIN holdfast_domains AS d
    ON d.space = :space AND d.queue = json_extract(given.value, '$[0]') AND d.domain = json_extract(given.value, '$[1]')
 WHERE d.halted_by = json_extract(given.value, '$[2]')
