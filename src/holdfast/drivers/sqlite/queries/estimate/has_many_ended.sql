-- A row if the space has more ended jobs than a limit. Index: holdfast_ended_id, without the table.
SELECT 1 FROM holdfast_ended INDEXED BY holdfast_ended_id WHERE space = :space LIMIT 1 OFFSET :rows
