-- What is stored of a domain that is halted, waits, or does not begin at offset 0. Index: the primary key.
SELECT start, halted_by FROM holdfast_domains WHERE space = ? AND queue = ? AND domain = ?
