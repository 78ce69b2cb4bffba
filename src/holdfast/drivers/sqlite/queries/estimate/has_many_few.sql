-- A row if the space has more dead and cancelled jobs than a limit. Index: holdfast_ended_few, without the table.
SELECT 1 FROM holdfast_ended INDEXED BY holdfast_ended_few WHERE space = :space AND state <> 'done' LIMIT 1 OFFSET :rows
