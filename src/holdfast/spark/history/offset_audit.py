"""Check that every domain ran its jobs in the order of their offsets.

A job breaks the order if it had arrived when a job with a larger offset, or without one, was leased, and ran after that
job. It is enough to compare a lease with the last earlier lease of a larger offset: if a job had arrived when any of
them was leased, it had arrived when the last one was. Windows of SQL cannot find that lease; a stack can, in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast.clock import SECOND
from holdfast.spark.statements import query

INSTANT = pa.timestamp("us", tz="UTC")
COLUMNS = ("queue", "domain", "job_id", "position", "offset", "arrived_at", "reserved_at")
DDL = (
    "queue string, domain string, job_id string, position bigint, offset bigint, arrived_at timestamp, "
    "reserved_at timestamp, last_job string, last_offset bigint, last_reserved_at timestamp, domain_order boolean"
)


def find_overtaken(checked_rows: DataFrame, *, slack_seconds: int) -> DataFrame:
    """Return the leases that came too late, each with the lease that should have come after it.

    ``checked_rows`` is the result of ``audit_jobs.sql``. A job whose call of enqueue began less than ``slack_seconds``
    before that lease may have been stored after it. Runs on the Spark driver.
    """
    leases = query(checked_rows.sparkSession, "audit_offsets", checked_rows=checked_rows)
    return leases.mapInArrow(partial(_find_overtaken, slack=slack_seconds * SECOND), DDL)


class _Lease(NamedTuple):
    rank: float  # the offset; jobs without one come last
    reserved_at: int
    job_id: str


def _find_overtaken(batches: Iterator[pa.RecordBatch], *, slack: int) -> Iterator[pa.RecordBatch]:
    """Body of the Spark task: leases in the order of (queue, domain, position). Runs on executors."""
    place = None
    stack: list[_Lease] = []  # of this domain: every lease that no later lease with the same or a larger offset follows
    for batch in batches:
        found: list[tuple[int, _Lease]] = []
        arrived, reserved = (batch.column(name).cast(pa.int64()).to_pylist() for name in ("arrived_at", "reserved_at"))
        queues, domains, ids, offsets = (
            batch.column(name).to_pylist() for name in ("queue", "domain", "job_id", "offset")
        )
        for row, offset in enumerate(offsets):
            if place != (queues[row], domains[row]):
                place = queues[row], domains[row]
                stack = []
            rank = math.inf if offset is None else offset
            while stack and stack[-1].rank <= rank:
                stack.pop()
            if stack and arrived[row] + slack < stack[-1].reserved_at:
                found.append((row, stack[-1]))
            stack.append(_Lease(rank, reserved[row], ids[row]))
        yield _report(batch, found)


def _report(batch: pa.RecordBatch, found: list[tuple[int, _Lease]]) -> pa.RecordBatch:
    late = batch.take(pa.array([row for row, _ in found], pa.int64()))
    larger = [lease for _, lease in found]
    offsets = [None if math.isinf(lease.rank) else int(lease.rank) for lease in larger]
    columns = {
        **{name: late.column(name) for name in COLUMNS},
        "last_job": pa.array([lease.job_id for lease in larger], pa.string()),
        "last_offset": pa.array(offsets, pa.int64()),
        "last_reserved_at": pa.array([lease.reserved_at for lease in larger], pa.int64()).cast(INSTANT),
        "domain_order": pa.array([True] * len(larger), pa.bool_()),
    }
    return pa.RecordBatch.from_pydict(columns)
