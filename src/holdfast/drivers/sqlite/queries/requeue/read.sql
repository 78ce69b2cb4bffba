-- Dead and cancelled jobs without their payloads and results, to see whether their rows can be read. :ids is a JSON list.
-- Index: holdfast_ended_id.
SELECT {e.payloadless_columns}
  FROM json_each(:ids) AS given CROSS JOIN holdfast_ended AS e ON e.space = :space AND e.id = given.value
 WHERE e.state <> 'done'
