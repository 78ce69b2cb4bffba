-- Jobs of one state that ended long enough ago, oldest first. Index: holdfast_ended_when.
SELECT seq FROM holdfast_ended INDEXED BY holdfast_ended_when
 WHERE space = :space AND state = :state AND ended_at <= :before ORDER BY ended_at LIMIT :limit
