"""Audit a store without a history. Runs on the Spark driver."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.drivers.contract import Store
from holdfast.drivers.optional import AuditScan
from holdfast.model.ledger import LedgerRow
from holdfast.spark.history.audit import Scope, audit
from holdfast.spark.history.certificate import Certificate
from holdfast.spark.history.schemas import jobs_table, leases_table
from holdfast.spark.history.store_reader import first_certain_instant, read_all_ended, read_chunks


def audit_store(store: Store, *, spark: SparkSession) -> Certificate:
    """Check the laws on what a store holds now. This process reads the whole ledger: sync a large store instead.

    The ended jobs are read before the ledger, so each of them must have a row there.
    """
    records = [jobs_table(page, position=0) for page in read_all_ended(store)]
    leases, waiting = [leases_table([], position=0)], jobs_table([], position=0)
    snapshot = position = 0
    first: LedgerRow | None = None
    for chunk in read_chunks(store, None):
        first = first or (chunk.rows[0] if chunk.rows else None)
        leases.append(leases_table(chunk.rows, position=position))
        position += len(chunk.rows)
        records.append(jobs_table(chunk.records, position=position, arrivals=chunk.arrivals))
        if chunk.waiting is not None:
            snapshot = chunk.snapshot or 0
            waiting = jobs_table(chunk.waiting, position=snapshot, arrivals=chunk.arrivals)
    tables = pa.concat_tables(leases), pa.concat_tables(records), waiting
    scope = Scope(
        position=position,
        jobs=tables[1].num_rows,
        waiting=waiting.num_rows,
        snapshot=snapshot,
        since=first_certain_instant(store, first),
        serial_arrivals=isinstance(store, AuditScan) and store.has_serial_arrivals,
    )
    return audit(*(spark.createDataFrame(table) for table in tables), scope=scope)
