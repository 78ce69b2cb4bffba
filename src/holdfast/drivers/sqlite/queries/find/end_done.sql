-- The id up to which one call of find reads the ended jobs. Index: holdfast_ended_id, without the table.
SELECT id FROM holdfast_ended INDEXED BY holdfast_ended_id
 WHERE space = :space AND id {beyond} :after ORDER BY id {direction} LIMIT 1 OFFSET :rows
