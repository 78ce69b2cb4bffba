"""Audit a store without a history. Runs on the Spark driver."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.drivers.contract import Store
from holdfast.spark.history.audit import Certificate, audit
from holdfast.spark.history.schemas import jobs_table, leases_table
from holdfast.spark.history.store_reader import read_chunks


def audit_store(store: Store, *, spark: SparkSession) -> Certificate:
    """Check the laws on what a store holds now. This process reads the whole ledger: sync a large store instead."""
    leases, records = [leases_table([], position=0)], [jobs_table([], position=0)]
    waiting, snapshot, position = records[0], 0, 0
    for chunk in read_chunks(store, None):
        leases.append(leases_table(chunk.rows, position=position))
        position += len(chunk.rows)
        records.append(jobs_table(chunk.records, position=position))
        if chunk.waiting is not None:
            waiting, snapshot = jobs_table(chunk.waiting, position=position), chunk.snapshot or 0
    frames = [spark.createDataFrame(table) for table in (pa.concat_tables(leases), pa.concat_tables(records), waiting)]
    return audit(*frames, snapshot=snapshot)
