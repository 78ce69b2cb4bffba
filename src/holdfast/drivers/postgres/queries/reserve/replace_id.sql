-- Give a leased job whose id is no id one that every verb accepts. Index: the primary key.
UPDATE holdfast.jobs SET id = %(id)s WHERE space = %(space)s AND id = %(stored)s AND token = %(token)s
