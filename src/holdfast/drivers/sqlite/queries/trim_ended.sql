-- Done and cancelled jobs that ended long enough ago, oldest first; never dead ones. Relies on holdfast_ended_when.
SELECT seq FROM holdfast_ended INDEXED BY holdfast_ended_when
 WHERE space = :space AND state = :state AND ended_at <= :before ORDER BY ended_at LIMIT :limit
