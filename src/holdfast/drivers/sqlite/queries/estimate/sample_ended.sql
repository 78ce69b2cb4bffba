-- A few ended jobs from a number on, of all spaces. Index: the primary key.
SELECT seq, space, queue, type, state, 1, available_at
  FROM holdfast_ended WHERE seq BETWEEN :first AND :last ORDER BY seq LIMIT :limit
