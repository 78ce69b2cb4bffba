-- Which of these offsets an open job has. :offsets is [[queue, domain, offset], ...]. Index: holdfast_jobs_domain.
SELECT j.queue, j.domain, j."offset"
  FROM json_each(:offsets) AS given
 CROSS JOIN holdfast_jobs AS j INDEXED BY holdfast_jobs_domain
    ON j.space = :space AND j.queue = json_extract(given.value, '$[0]') AND j.domain = json_extract(given.value, '$[1]')
   AND j."offset" = json_extract(given.value, '$[2]')
