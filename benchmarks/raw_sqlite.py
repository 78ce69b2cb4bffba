"""The raw loop on SQLite: plain sqlite3 that writes the same rows as the driver, in as few statements as possible.

It reads the same columns, because a worker needs the whole job. It assumes one lane, one worker, no domains, no limits,
no expired leases and no late settlements, and checks nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

from benchmarks.jobs import QUEUE, TYPE
from holdfast.drivers.sqlite.rows import insert_row
from holdfast.drivers.sqlite.statements import sql
from holdfast.model.job import JobRecord

RESERVE = f"""
UPDATE holdfast_jobs
   SET state = 'inflight', attempts = attempts + 1, token = seq || '.' || lower(hex(randomblob(16))), fence = seq,
       expires_at = ?1 + 60000000, reserved_at = ?1, worker = 'raw'
 WHERE seq IN (SELECT seq FROM holdfast_jobs INDEXED BY holdfast_jobs_lane
                WHERE space = 'main' AND queue = '{QUEUE}' AND type = '{TYPE}' AND priority = 0
                  AND isolated = 0 AND state = 'ready' AND turn = 1 AND available_at <= ?1
                ORDER BY available_at, seq LIMIT ?2)
RETURNING seq, id, type, queue, priority, payload, run_at, timeout, created_at, attempts, max_attempts, crashes,
          max_crashes, idempotency_key, domain, "offset", name, meta, webhook, signature, requested_run_at, last_error,
          failed_at, token, fence, expires_at
"""
END = """
INSERT INTO holdfast_ended
  (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, run_at, attempts, max_attempts,
   crashes, max_crashes, cancel_requested, noted, last_verb, last_token, created_at, requested_run_at, timeout,
   idempotency_key, domain, "offset", name, meta, webhook, signature, last_error, failed_at, payload)
SELECT j.seq, j.space, j.id, j.queue, j.type, j.priority, 'done', j.available_at, j.enqueued_at, :now, j.run_at,
       j.attempts, j.max_attempts, j.crashes, j.max_crashes, 0, j.noted, 'ack', j.token, j.created_at,
       j.requested_run_at, j.timeout, j.idempotency_key, j.domain, j."offset", j.name, j.meta, j.webhook, j.signature,
       j.last_error, j.failed_at, j.payload
  FROM json_each(:jobs) AS a CROSS JOIN holdfast_jobs AS j ON j.seq = a.value
"""
LEDGER = """
INSERT INTO holdfast_ledger
SELECT j.space, :written + 1 + a.key, j.id, j.type, j.queue, j.domain, j."offset", j.attempts, j.fence, j.worker,
       j.enqueued_at, j.available_at, j.reserved_at, NULL, :now, 'acked', 'done', '', ''
  FROM json_each(:jobs) AS a CROSS JOIN holdfast_jobs AS j ON j.seq = a.value
"""
DELETE = "DELETE FROM holdfast_jobs WHERE seq IN (SELECT value FROM json_each(:jobs))"


class RawSqlite:
    """A connection with the same durability as the driver's."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=60)
        for pragma in ("synchronous=FULL", "temp_store=MEMORY", "cache_size=-65536", "wal_autocheckpoint=4000"):
            self.connection.execute(f"PRAGMA {pragma}")

    def drain(self, batch_size: int) -> int:
        """Reserve and ack batches until the queue is empty; return the number of jobs."""
        run = self.connection.execute
        drained = 0
        [written] = run("SELECT coalesce(max(seq), 0) FROM holdfast_ledger WHERE space = 'main'").fetchone()
        while True:
            now = time.time_ns() // 1000
            run("BEGIN IMMEDIATE")
            rows = run(RESERVE, (now, batch_size)).fetchall()
            run("COMMIT")
            if not rows:
                break
            batch = {"now": now, "written": written, "jobs": json.dumps([row[0] for row in rows])}
            run("BEGIN IMMEDIATE")
            run(END, batch)
            run(LEDGER, batch)
            run(DELETE, batch)
            run("COMMIT")
            drained += len(rows)
            written += len(rows)
        return drained

    def enqueue(self, jobs: list[JobRecord]) -> None:
        """One executemany in one transaction."""
        now = time.time_ns() // 1000
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(sql("enqueue/insert"), [insert_row(job, "main", now) for job in jobs])
        self.connection.execute("COMMIT")
