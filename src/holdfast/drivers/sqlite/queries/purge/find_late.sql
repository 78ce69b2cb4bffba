-- The ended jobs that ended at or after an instant. :ids is a JSON list. Index: holdfast_ended_id.
SELECT e.id
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
 WHERE e.ended_at >= :since
