-- The id up to which one call of find reads the dead or cancelled jobs. Index: holdfast_ended_few, without the table.
SELECT id FROM holdfast_ended INDEXED BY holdfast_ended_few
 WHERE space = :space AND state <> 'done' AND state = :state AND id {beyond} :after ORDER BY id {direction} LIMIT 1 OFFSET :rows
