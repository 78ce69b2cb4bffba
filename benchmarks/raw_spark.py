"""The raw side in Spark tasks: functions for ``mapInArrow`` that read and write PostgreSQL directly, with COPY."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from uuid_utils import uuid7

from holdfast.clock import SystemClock
from holdfast.spark.datasource.ledger_table import SCHEMA
from holdfast.spark.execution.run_columns import KEY_CHARACTERS

Batches = Iterator[pa.RecordBatch]
CSV_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="needed")

COPY_JOBS = """
COPY holdfast.jobs (id, payload, idempotency_key, space, queue, type, priority, available_at, enqueued_at, created_at,
                    max_attempts, max_crashes) FROM STDIN (FORMAT csv)
"""
COPY_KEYS = "COPY holdfast.dedupe (key, job_id, space, queue, until, digest) FROM STDIN (FORMAT csv)"
COPY_ENDED = """
COPY holdfast.ended (id, payload, idempotency_key, result, last_token, space, queue, type, state, last_verb, last_error,
                     seq, available_at, enqueued_at, ended_at, created_at, priority, attempts, max_attempts, crashes,
                     max_crashes, cancel_requested, noted) FROM STDIN (FORMAT csv, FORCE_NOT_NULL (last_error))
"""
COPY_LEDGER = """
COPY holdfast.ledger (job_id, space, queue, type, worker, ending, state, detail, error, attempt, fence, enqueued_at,
                      available_at, reserved_at, started_at, ended_at)
  FROM STDIN (FORMAT csv, FORCE_NOT_NULL (detail, error))
"""
COPY_ROWS = "COPY raw_rows FROM STDIN (FORMAT csv)"
SCAN = f"""
SELECT {", ".join(f'"{name}"' for name in SCHEMA.names)} FROM holdfast.ledger
 WHERE ctid >= %s::tid AND ctid < %s::tid
"""
DIGEST = "0123456789abcdef"  # a constant of the length of a payload digest
PAGE_ROWS = 10_000  # rows in Python's memory at a time


def copy_rows(batches: Batches, *, url: str, handle: Callable[[dict[str, object]], object] | None = None) -> Batches:
    """Store the rows, each with the result of ``handle`` if there is one; one transaction per partition."""
    count = 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor, cursor.copy(COPY_ROWS) as copy:
        for batch in batches:
            values = [None] * batch.num_rows if handle is None else [handle(row) for row in batch.to_pylist()]
            results = pa.array(values, pa.string())
            copy.write(_to_csv(pa.Table.from_arrays([*batch.columns, results], names=[*batch.schema.names, "result"])))
            count += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def copy_jobs(batches: Batches, *, url: str) -> Batches:
    """Store what the sink stores, in as few bytes as possible: the jobs and their keys, in one transaction."""
    count = 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for batch in batches:
            jobs, keys = _job_tables(batch)
            for statement, table in ((COPY_JOBS, jobs), (COPY_KEYS, keys)):
                with cursor.copy(statement) as copy:
                    copy.write(_to_csv(table))
            count += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def copy_ended(batches: Batches, *, url: str, handle: Callable[[dict[str, object]], object]) -> Batches:
    """Store what ``run`` leaves in the store: keys, ended jobs with the results of ``handle``, and ledger rows."""
    count = 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for batch in batches:
            results = pa.array([json.dumps(handle(row)) for row in batch.to_pylist()], pa.string())
            statements = (COPY_KEYS, COPY_ENDED, COPY_LEDGER)
            for statement, table in zip(statements, _ended_tables(batch, results), strict=True):
                with cursor.copy(statement) as copy:
                    copy.write(_to_csv(table))
            count += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def scan_ledger(partitions: Batches, *, url: str, pages: int) -> Batches:
    """Read the ledger as Arrow: each Spark task reads its share of the table's pages, in physical order."""
    with psycopg.connect(url) as connection:
        for partition in partitions:
            for number in partition.column(0).to_pylist():
                share = -(-(pages + 1) // 2)
                with connection.cursor("scan", binary=True) as cursor:
                    cursor.execute(SCAN, [f"({number * share},0)", f"({(number + 1) * share},0)"])
                    while rows := cursor.fetchmany(PAGE_ROWS):
                        columns = zip(*rows, strict=True)
                        arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
                        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _job_tables(batch: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
    ids, keys, payload = _ids_keys_payloads(batch)
    now = SystemClock().now()
    jobs = _table(ids, payload, keys, "main", "bench", "bench.noop", 0, now, now, now, 25, 3)
    return jobs, _table(keys, ids, "main", "bench", now, DIGEST)


def _ended_tables(batch: pa.RecordBatch, results: pa.Array) -> tuple[pa.Table, pa.Table, pa.Table]:
    ids, _, payload = _ids_keys_payloads(batch)
    # Reversed digits spread the keys over the whole index.
    keys = pc.utf8_reverse(pc.utf8_lpad(batch.column(0).cast(pa.string()), KEY_CHARACTERS, "0"))
    now, queue = SystemClock().now(), f"run:{uuid7()}"
    names, times = ("main", queue, "spark.row"), (now, now, now)
    counters = (0, 1, 25, 0, 3, "false", "false")
    ended = _table(ids, payload, keys, results, ids, *names, "done", "ack", "", now, *times, now, *counters)
    ledger = _table(ids, *names, "worker", "acked", "done", "", "", 1, 1, *times, now, now)
    return _table(keys, ids, "main", queue, now, DIGEST), ended, ledger


def _ids_keys_payloads(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
    customer, action, note = (column.cast(pa.string()) for column in batch.columns)
    payload = _concatenate('{"customer":', customer, ',"action":"', action, '","note":"', note, '"}')
    prefix = uuid7()
    return _concatenate(f"{prefix}-", customer), _concatenate(f"spark:{prefix}:", customer), payload


def _concatenate(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _table(*columns: pa.Array | str | int) -> pa.Table:
    """A table of these columns; a constant is repeated for every row."""
    count = max(len(column) for column in columns if isinstance(column, pa.Array))
    arrays = [column if isinstance(column, pa.Array) else pa.repeat(column, count) for column in columns]
    return pa.Table.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])


def _to_csv(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    csv.write_csv(table, buffer, CSV_OPTIONS)
    return buffer.getvalue()
