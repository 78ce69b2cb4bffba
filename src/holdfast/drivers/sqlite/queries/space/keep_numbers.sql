-- Keep the numbers of a space that is removed in the row of the space ''. A space without a row begins with these
-- numbers (read_removed.sql). Index: the primary key.
INSERT INTO holdfast_spaces (space, counter, ledger_trimmed) VALUES ('', :counter, :ledger)
ON CONFLICT (space) DO UPDATE
   SET counter = max(counter, excluded.counter), ledger_trimmed = max(ledger_trimmed, excluded.ledger_trimmed)
