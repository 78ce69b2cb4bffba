-- The number of dead and cancelled jobs per queue and type. Index: holdfast_ended_few; reads no done job.
SELECT queue, type, state, count(*)
  FROM holdfast_ended INDEXED BY holdfast_ended_few
 WHERE space = :space AND state <> 'done' AND state IN (SELECT value FROM json_each(:states)) GROUP BY 1, 2, 3
