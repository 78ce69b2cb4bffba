"""The other side in Spark tasks: bodies for ``mapInArrow`` that read and write PostgreSQL by hand, with COPY."""

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
from holdfast.spark.execution.dataframe import KEY_LENGTH

Batches = Iterator[pa.RecordBatch]
QUOTED = csv.WriteOptions(include_header=False, quoting_style="needed")

JOBS = """
COPY holdfast.jobs (id, payload, idempotency_key, space, queue, type, priority, available_at, enqueued_at, created_at,
                    max_attempts, max_crashes) FROM STDIN (FORMAT csv)
"""
KEYS = "COPY holdfast.dedupe (key, job_id, space, queue, until, digest) FROM STDIN (FORMAT csv)"
ENDED = """
COPY holdfast.ended (id, payload, idempotency_key, result, last_token, space, queue, type, state, last_verb, last_error,
                     seq, available_at, enqueued_at, ended_at, created_at, priority, attempts, max_attempts, crashes,
                     max_crashes, cancel_requested, noted) FROM STDIN (FORMAT csv, FORCE_NOT_NULL (last_error))
"""
LEDGER = """
COPY holdfast.ledger (job_id, space, queue, type, worker, ending, state, detail, error, attempt, fence, enqueued_at,
                      available_at, reserved_at, started_at, ended_at)
  FROM STDIN (FORMAT csv, FORCE_NOT_NULL (detail, error))
"""
ROWS = "COPY raw_rows FROM STDIN (FORMAT csv)"
SCAN = f"""
SELECT {", ".join(f'"{name}"' for name in SCHEMA.names)} FROM holdfast.ledger
 WHERE ctid >= %s::tid AND ctid < %s::tid
"""
DIGEST = "0123456789abcdef"  # as long as one
PAGE = 10_000  # rows that are held in Python at a time


def copied_as_rows(
    batches: Batches, *, url: str, handle: Callable[[dict[str, object]], object] | None = None
) -> Batches:
    """The rows as they are, or each with what a function makes of it; one transaction for each partition."""
    count = 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor, cursor.copy(ROWS) as copy:
        for batch in batches:
            results = [None] * batch.num_rows if handle is None else [handle(row) for row in batch.to_pylist()]
            made = pa.array(results, pa.string())
            copy.write(_text(pa.Table.from_arrays([*batch.columns, made], names=[*batch.schema.names, "result"])))
            count += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def copied_as_jobs(batches: Batches, *, url: str) -> Batches:
    """What the sink stores for the rows, as few bytes as possible: the jobs, then their keys, in one transaction."""
    count = 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for batch in batches:
            jobs, keys = _as_jobs(batch)
            for statement, table in ((JOBS, jobs), (KEYS, keys)):
                with cursor.copy(statement) as copy:
                    copy.write(_text(table))
            count += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def copied_as_ended(batches: Batches, *, url: str, handle: Callable[[dict[str, object]], object]) -> Batches:
    """What ``run`` leaves in the store, written once: keys, ended jobs with a function's results, and ledger rows."""
    count = 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for batch in batches:
            results = pa.array([json.dumps(handle(row)) for row in batch.to_pylist()], pa.string())
            for statement, table in zip((KEYS, ENDED, LEDGER), _as_ended(batch, results), strict=True):
                with cursor.copy(statement) as copy:
                    copy.write(_text(table))
            count += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def scanned(places: Batches, *, url: str, pages: int) -> Batches:
    """An Arrow scan: each Spark task reads its share of the table's pages, in the order of the disk."""
    with psycopg.connect(url) as connection:
        for place in places:
            for number in place.column(0).to_pylist():
                share = -(-(pages + 1) // 2)
                with connection.cursor("scan", binary=True) as cursor:
                    cursor.execute(SCAN, [f"({number * share},0)", f"({(number + 1) * share},0)"])
                    while rows := cursor.fetchmany(PAGE):
                        columns = zip(*rows, strict=True)
                        arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
                        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _as_jobs(batch: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
    ids, keys, payload = _identified(batch)
    now = SystemClock().now()
    jobs = _table(ids, payload, keys, "main", "bench", "bench.noop", 0, now, now, now, 25, 3)
    return jobs, _table(keys, ids, "main", "bench", now, DIGEST)


def _as_ended(batch: pa.RecordBatch, results: pa.Array) -> tuple[pa.Table, pa.Table, pa.Table]:
    ids, _, payload = _identified(batch)
    keys = pc.utf8_reverse(pc.utf8_lpad(batch.column(0).cast(pa.string()), KEY_LENGTH, "0"))  # all over their index
    now, queue = SystemClock().now(), f"run:{uuid7()}"
    names, times = ("main", queue, "spark.row"), (now, now, now)
    counted = (0, 1, 25, 0, 3, "false", "false")
    ended = _table(ids, payload, keys, results, ids, *names, "done", "ack", "", now, *times, now, *counted)
    ledger = _table(ids, *names, "worker", "acked", "done", "", "", 1, 1, *times, now, now)
    return _table(keys, ids, "main", queue, now, DIGEST), ended, ledger


def _identified(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Ids, keys and payloads for rows."""
    customer, action, note = (column.cast(pa.string()) for column in batch.columns)
    payload = _joined('{"customer":', customer, ',"action":"', action, '","note":"', note, '"}')
    prefix = uuid7()
    return _joined(f"{prefix}-", customer), _joined(f"spark:{prefix}:", customer), payload


def _joined(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _table(*columns: pa.Array | str | int) -> pa.Table:
    """Constants are repeated for every row."""
    count = max(len(column) for column in columns if isinstance(column, pa.Array))
    arrays = [column if isinstance(column, pa.Array) else pa.repeat(column, count) for column in columns]
    return pa.Table.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])


def _text(table: pa.Table) -> bytes:
    out = io.BytesIO()
    csv.write_csv(table, out, QUOTED)
    return out.getvalue()
