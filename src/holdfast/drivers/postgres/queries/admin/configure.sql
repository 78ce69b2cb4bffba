-- Replace the settings of a queue, or of a type in it (type '' is the queue). The rate bucket keeps its level.
INSERT INTO holdfast.settings (space, queue, type, {settings_columns})
VALUES (%(space)s, %(queue)s, %(type)s, {settings_values})
ON CONFLICT (space, queue, type) DO UPDATE
   SET ({settings_columns}) = ROW ({excluded.settings_columns})
