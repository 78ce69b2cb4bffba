-- The jobs that have the turn in these domains and are due, in the order of :domains, each with its lane. :domains is
-- [[queue, domain], ...]. Index: holdfast_jobs_turn, one probe per domain.
SELECT j.queue, j.type, j.priority, j.isolated, j.available_at, j.seq, {j.due_columns}, j.noted
  FROM json_each(:domains) AS given
 CROSS JOIN holdfast_jobs AS j INDEXED BY holdfast_jobs_turn
    ON j.space = :space AND j.queue = json_extract(given.value, '$[0]') AND j.domain = json_extract(given.value, '$[1]')
   AND j.turn = 1
 WHERE j.state = 'ready' AND j.available_at <= :now
 ORDER BY given.key
