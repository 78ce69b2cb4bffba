"""Audit a store without a history. Runs on the Spark driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.drivers.requests import Diagnose
from holdfast.drivers.store import Store
from holdfast.model.ledger import LedgerRow
from holdfast.spark.history.audit import Scope, audit
from holdfast.spark.history.certificate import Certificate
from holdfast.spark.history.schemas import jobs_table, leases_table
from holdfast.spark.history.store_reader import Chunk, first_certain_instant, read_all_ended, read_chunks


def audit_store(store: Store, *, spark: SparkSession) -> Certificate:
    """Check the laws on what a store holds now. This process reads the whole ledger: sync a large store instead.

    The ended jobs are read before the ledger, so each of them must have a row there. If the store numbers its ledger
    rows, the positions are these numbers, and a row that was neither trimmed nor read is missing. Otherwise the rows
    are counted as they are read.
    """
    trimmed = _read_trimmed(store)
    records = [jobs_table(page, position=0) for page in read_all_ended(store)]
    leases, waiting = [leases_table([])], jobs_table([], position=0)
    snapshot = position = 0
    positions: list[int] = []
    first: LedgerRow | None = None
    for chunk in read_chunks(store, None):
        first = first or (chunk.rows[0] if chunk.rows else None)
        numbers = _positions(store, chunk, len(positions))
        leases.append(leases_table(chunk.rows, positions=numbers))
        positions += numbers
        position = positions[-1] + 1 if positions else 0
        records.append(jobs_table(chunk.records, position=position, arrivals=chunk.arrivals))
        if chunk.waiting is not None:
            snapshot = positions[chunk.snapshot - 1] + 1 if chunk.snapshot else 0
            waiting = jobs_table(chunk.waiting, position=snapshot, arrivals=chunk.arrivals)
    tables = pa.concat_tables(leases), pa.concat_tables(records), waiting
    first_position = _first_position(positions, trimmed, _read_trimmed(store))
    scope = Scope(
        position=max(position, first_position),
        first_position=first_position,
        jobs=tables[1].num_rows,
        waiting=waiting.num_rows,
        snapshot=snapshot,
        since=first_certain_instant(store, first),
        serial_arrivals=store.engine.has_serial_arrivals,
    )
    certificate = audit(*(spark.createDataFrame(table) for table in tables), scope=scope)
    return replace(certificate, trimmed=trimmed)


def _read_trimmed(store: Store) -> int | None:
    return store.do(Diagnose()).trimmed_rows


def _positions(store: Store, chunk: Chunk, rows_before: int) -> list[int]:
    if store.engine.has_numbered_ledger:
        return [int(cursor) - 1 for cursor in chunk.cursors]
    return list(range(rows_before, rows_before + len(chunk.rows)))


def _first_position(positions: Sequence[int], before: int | None, after: int | None) -> int:
    """Return the position from which on no row may be missing. Rows may have been trimmed while they were read."""
    first_read = positions[0] if positions else None
    if before is None or after is None:
        return first_read or 0
    return before if before == after else min(after, after if first_read is None else first_read)
