-- Count the jobs of a store of any size in bounded time (ADR 0044).

-- name: due
-- The number of due jobs of a lane, up to a limit, and since when the first of them has been due. Index: holdfast_jobs_lane.
SELECT count(*), min(some.available_at)
  FROM (SELECT available_at FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
         WHERE space = :space AND queue = :queue AND type = :type AND priority = :priority AND isolated = :isolated
           AND state = 'ready' AND turn = 1 AND available_at <= :now
         ORDER BY available_at LIMIT :limit) AS some


-- name: has_many_ended
-- A row if the space has more ended jobs than a limit. Index: holdfast_ended_id, without the table.
SELECT 1 FROM holdfast_ended INDEXED BY holdfast_ended_id WHERE space = :space LIMIT 1 OFFSET :rows


-- name: has_many_few
-- A row if the space has more dead and cancelled jobs than a limit. Index: holdfast_ended_few, without the table.
SELECT 1 FROM holdfast_ended INDEXED BY holdfast_ended_few WHERE space = :space AND state <> 'done' LIMIT 1 OFFSET :rows


-- name: has_many_open
-- A row if the space has more open jobs than a limit. Index: holdfast_jobs_id, without the table.
SELECT 1 FROM holdfast_jobs INDEXED BY holdfast_jobs_id WHERE space = :space LIMIT 1 OFFSET :rows


-- name: lanes
-- The lanes that have ever had a job, each with and without jobs that run alone. Index: the primary key.
SELECT l.queue, l.type, l.priority, alone.value
  FROM holdfast_lanes AS l CROSS JOIN json_each('[0, 1]') AS alone
 WHERE l.space = :space LIMIT 20000


-- name: later
-- The number of jobs of a lane that are not due, up to a limit, and how many of them are parked: those are due, but their
-- limit key has no allowance. Index: holdfast_jobs_lane.
SELECT count(*), coalesce(sum(some.parked), 0)
  FROM (SELECT parked_from IS NOT NULL AS parked FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
         WHERE space = :space AND queue = :queue AND type = :type AND priority = :priority AND isolated = :isolated
           AND state = 'ready' AND turn = 1 AND available_at > :now
         LIMIT :limit) AS some


-- name: leases
-- The types of the jobs in flight of a queue, up to a limit. Index: holdfast_jobs_leased, without the table.
SELECT type FROM holdfast_jobs INDEXED BY holdfast_jobs_leased
 WHERE space = :space AND queue = :queue AND state = 'inflight' LIMIT :limit


-- name: range_ended
-- The first and the last number of an ended job, of all spaces. Index: the primary key.
SELECT (SELECT min(seq) FROM holdfast_ended), (SELECT max(seq) FROM holdfast_ended)


-- name: range_open
-- The first and the last number of an open job, of all spaces. Index: the primary key.
SELECT (SELECT min(seq) FROM holdfast_jobs), (SELECT max(seq) FROM holdfast_jobs)


-- name: sample_ended
-- A few ended jobs from a number on, of all spaces. Index: the primary key.
SELECT seq, space, queue, type, state, 1, available_at
  FROM holdfast_ended WHERE seq BETWEEN :first AND :last ORDER BY seq LIMIT :limit


-- name: sample_open
-- A few open jobs from a number on, of all spaces. Index: the primary key.
SELECT seq, space, queue, type, state, turn, coalesce(parked_from, available_at)
  FROM holdfast_jobs WHERE seq BETWEEN :first AND :last ORDER BY seq LIMIT :limit
