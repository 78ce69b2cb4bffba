"""The raw loop on PostgreSQL: plain psycopg that writes the same rows as the driver, in as few statements as possible.

It reads the same columns, because a worker needs the whole job. It assumes one lane, one worker, no domains, no limits,
no expired leases and no late settlements, and checks nothing. Its statements are prepared, which the driver's are not.
"""

from __future__ import annotations

import psycopg

from benchmarks.jobs import QUEUE, TYPE
from holdfast.model.job import JobRecord

RESERVE = f"""
UPDATE holdfast.jobs
   SET state = 'inflight', attempts = attempts + 1, token = seq || '.' || replace(gen_random_uuid()::text, '-', ''),
       fence = nextval('holdfast.counter'), expires_at = clock.now + 60000000, check_at = clock.now + 60000000,
       reserved_at = clock.now, worker = 'raw'
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM holdfast.jobs
                          WHERE space = 'main' AND queue = '{QUEUE}' AND type = '{TYPE}' AND priority = 0
                            AND NOT isolated AND state = 'ready' AND turn
                            AND available_at <= (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
                          ORDER BY available_at, seq LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING id, type, queue, priority, payload, run_at, timeout, created_at, attempts, max_attempts, crashes,
          max_crashes, idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, last_error,
          failed_at, token, fence, expires_at
"""
ACK = """
WITH clock AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), deleted AS (DELETE FROM holdfast.jobs WHERE space = 'main' AND id = ANY (%s) RETURNING *
), stored AS (
  INSERT INTO holdfast.ended
    (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at, attempts, max_attempts,
     crashes, max_crashes, cancel_requested, noted, last_verb, last_token, created_at, requested_run_at, timeout,
     idempotency_key, domain, "offset", name, meta, webhook, signature, last_error, failed_at, payload)
  SELECT seq, space, id, queue, type, priority, 'done', available_at, enqueued_at, now, run_at, attempts, max_attempts,
         crashes, max_crashes, cancel_requested, noted, 'ack', token, created_at, requested_run_at, timeout,
         idempotency_key, domain, "offset", name, meta, webhook, signature, last_error, failed_at, payload
    FROM deleted, clock
)
INSERT INTO holdfast.ledger
  (space, job_id, type, queue, domain, "offset", attempt, fence, worker, enqueued_at, available_at, reserved_at,
   ended_at, ending, state, detail, error)
SELECT space, id, type, queue, domain, "offset", attempts, fence, worker, enqueued_at, available_at, reserved_at, now,
       'acked', 'done', '', ''
  FROM deleted, clock
"""
COPY = """
COPY holdfast.jobs (space, id, queue, type, priority, available_at, enqueued_at, max_attempts, max_crashes, created_at,
                    payload) FROM STDIN (FORMAT BINARY)
"""
COPY_TYPES = ("text", "text", "text", "text", "int4", "int8", "int8", "int4", "int4", "int8", "bytea")


class RawPostgres:
    """A connection with the same durability as the driver's."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)

    def drain(self, batch_size: int) -> int:
        """Reserve and ack batches until the queue is empty; return the number of jobs."""
        run = self.connection.execute
        drained = 0
        while rows := run(RESERVE, [batch_size], binary=True).fetchall():
            run(ACK, [[row[0] for row in rows]], binary=True)
            drained += len(rows)
        return drained

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def enqueue(self, jobs: list[JobRecord]) -> None:
        """One COPY."""
        with self.connection.cursor() as cursor, cursor.copy(COPY) as copy:
            copy.set_types(COPY_TYPES)
            for job in jobs:
                copy.write_row(
                    (
                        "main",
                        job.id,
                        job.queue,
                        job.type,
                        job.priority,
                        job.created_at,
                        job.created_at,
                        job.max_attempts,
                        job.max_crashes,
                        job.created_at,
                        job.payload,
                    )
                )
