-- Insert one transition: item, job, verb, started_at, then the fields of Transition.
INSERT INTO holdfast_settling (item, job, verb, started_at, {transition_columns})
VALUES (?, ?, ?, ?, {transition_values})
