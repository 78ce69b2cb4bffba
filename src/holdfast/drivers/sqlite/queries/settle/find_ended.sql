-- Like find_live.sql, for jobs that have ended: they are needed only to recognise a repeated settlement (L6).
-- Index: holdfast_ended_id.
SELECT e.id, e.seq, e.queue, e.domain, e."offset", e.limit_key, {e.ended_held_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
