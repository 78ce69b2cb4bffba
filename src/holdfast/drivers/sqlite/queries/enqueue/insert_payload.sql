-- Store a large payload; the row of its job names it.
INSERT INTO holdfast_payloads (space, payload) VALUES (?, ?)
