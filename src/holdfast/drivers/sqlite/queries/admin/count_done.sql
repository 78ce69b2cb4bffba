-- The number of done jobs per queue and type. Reads every ended job of the space.
SELECT queue, type, state, count(*)
  FROM holdfast_ended INDEXED BY holdfast_ended_id
 WHERE space = :space AND state = 'done' GROUP BY 1, 2
