-- A page of jobs in order of ids: one ordered read for hot jobs, one for done ones and one for the few others, merged.
-- Relies on the primary keys and on ended_few; the filters are checked row by row.
(SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       NULL::text, NULL::bigint, NULL::bytea
  FROM holdfast.jobs
 WHERE %(hot)s AND space = %(space)s AND id > %(after)s AND state = ANY (%(states)s) AND %(reason)s::text IS NULL
   AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(type)s::text IS NULL OR type = %(type)s)
   AND (%(domain)s::text IS NULL OR domain = %(domain)s) AND (%(name)s::text IS NULL OR name = %(name)s)
   AND (%(idempotency_key)s::text IS NULL OR idempotency_key = %(idempotency_key)s)
   AND (%(created_from)s::bigint IS NULL OR created_at >= %(created_from)s)
   AND (%(created_before)s::bigint IS NULL OR created_at < %(created_before)s)
 ORDER BY id LIMIT %(limit)s)
UNION ALL
(SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       dead_reason, dead_at, result
  FROM holdfast.ended
 WHERE %(done)s AND space = %(space)s AND id > %(after)s AND state = 'done' AND %(reason)s::text IS NULL
   AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(type)s::text IS NULL OR type = %(type)s)
   AND (%(domain)s::text IS NULL OR domain = %(domain)s) AND (%(name)s::text IS NULL OR name = %(name)s)
   AND (%(idempotency_key)s::text IS NULL OR idempotency_key = %(idempotency_key)s)
   AND (%(created_from)s::bigint IS NULL OR created_at >= %(created_from)s)
   AND (%(created_before)s::bigint IS NULL OR created_at < %(created_before)s)
 ORDER BY id LIMIT %(limit)s)
UNION ALL
(SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       dead_reason, dead_at, result
  FROM holdfast.ended
 WHERE %(dead)s AND space = %(space)s AND state = 'dead' AND id > %(after)s
   AND (%(reason)s::text IS NULL OR dead_reason = %(reason)s)
   AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(type)s::text IS NULL OR type = %(type)s)
   AND (%(domain)s::text IS NULL OR domain = %(domain)s) AND (%(name)s::text IS NULL OR name = %(name)s)
   AND (%(idempotency_key)s::text IS NULL OR idempotency_key = %(idempotency_key)s)
   AND (%(created_from)s::bigint IS NULL OR created_at >= %(created_from)s)
   AND (%(created_before)s::bigint IS NULL OR created_at < %(created_before)s)
 ORDER BY id LIMIT %(limit)s)
UNION ALL
(SELECT id, type, queue, payload, priority, run_at, timeout, created_at, attempts, max_attempts, crashes, max_crashes,
       idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, state, last_error, failed_at,
       dead_reason, dead_at, result
  FROM holdfast.ended
 WHERE %(cancelled)s AND space = %(space)s AND state = 'cancelled' AND id > %(after)s AND %(reason)s::text IS NULL
   AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(type)s::text IS NULL OR type = %(type)s)
   AND (%(domain)s::text IS NULL OR domain = %(domain)s) AND (%(name)s::text IS NULL OR name = %(name)s)
   AND (%(idempotency_key)s::text IS NULL OR idempotency_key = %(idempotency_key)s)
   AND (%(created_from)s::bigint IS NULL OR created_at >= %(created_from)s)
   AND (%(created_before)s::bigint IS NULL OR created_at < %(created_before)s)
 ORDER BY id LIMIT %(limit)s)
ORDER BY 1 LIMIT %(limit)s
