-- Insert a new job. A job of a domain has turn = 0 until domains/give_turn.sql, which runs right after.
INSERT INTO holdfast_jobs (space, turn, available_at, enqueued_at, {insert_columns})
VALUES (?, ?, ?, ?, {insert_values})
