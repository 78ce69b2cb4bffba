-- The settings of a queue, or of a type in it.
SELECT {settings_columns} FROM holdfast.settings WHERE space = %(space)s AND queue = %(queue)s AND type = %(type)s
