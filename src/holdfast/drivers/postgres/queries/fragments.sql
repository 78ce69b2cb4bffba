-- Parts of statements, which a statement names in braces.

-- name: job_filter
-- The conditions of a JobFilter that jobs and ended share, for find.
    (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(type)s::text IS NULL OR type = %(type)s)
   AND (%(domain)s::text IS NULL OR domain = %(domain)s) AND (%(name)s::text IS NULL OR name = %(name)s)
   AND (%(idempotency_key)s::text IS NULL OR idempotency_key = %(idempotency_key)s)
   AND (%(created_from)s::bigint IS NULL OR created_at >= %(created_from)s)
   AND (%(created_before)s::bigint IS NULL OR created_at < %(created_before)s)
