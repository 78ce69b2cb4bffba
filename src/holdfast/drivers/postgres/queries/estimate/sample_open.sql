-- Open jobs in a random part of the pages of the table, by queue, type and word, with the age of the oldest one. A due
-- job without the turn of its domain is waiting; a parked job has been available since parked_from.
SELECT s.queue, s.type, s.word, count(*), s.now - greatest(0, min(s.available_at))
  FROM (SELECT j.queue, j.type, coalesce(j.parked_from, j.available_at) AS available_at, t.now,
               CASE WHEN j.state <> 'ready' THEN j.state
                    WHEN coalesce(j.parked_from, j.available_at) > t.now THEN 'scheduled'
                    WHEN j.turn THEN 'ready'
                    ELSE 'waiting' END AS word
          FROM holdfast.jobs AS j TABLESAMPLE SYSTEM (%(percent)s)
         CROSS JOIN (SELECT holdfast.effective_now(%(now)s) AS now OFFSET 0) AS t
         WHERE j.space = %(space)s) AS s
 GROUP BY 1, 2, 3, s.now
