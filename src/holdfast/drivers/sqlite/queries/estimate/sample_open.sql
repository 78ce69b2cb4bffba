-- A few open jobs from a number on, of all spaces. Index: the primary key.
SELECT seq, space, queue, type, state, turn, coalesce(parked_from, available_at)
  FROM holdfast_jobs WHERE seq BETWEEN :first AND :last ORDER BY seq LIMIT :limit
