-- Remove the row of a domain of which it says nothing. Index: the primary key.
DELETE FROM holdfast_domains
 WHERE space = ? AND queue = ? AND domain = ? AND start = 0 AND halted_by IS NULL AND waits_for IS NULL AND NOT arrived
