"""The outcome of every row of a ``run``: its job as it ended, read from the store by Spark tasks.

Ids grow with time, so the jobs of a run are close together in the store: each Spark task reads one range of ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.spark.column_schemas import ddl, job_fields
from holdfast.spark.compat import cores
from holdfast.spark.job_pages import job_pages
from holdfast.spark.store_access import open_store

COLUMNS = {  # of an outcome: the column of the job
    "job_key": "idempotency_key",
    "result": "result",
    "attempts": "attempts",
    "error": "last_error",
    "reason": "dead_reason",
    "state": "state",
    "job_id": "id",
}
_JOB_COLUMNS = tuple(COLUMNS.values())
_STORED = pa.schema([field.with_name(name) for name, field in zip(COLUMNS, job_fields(*_JOB_COLUMNS), strict=True)])
_RESULT = _STORED.get_field_index("result")
SCHEMA = _STORED.set(_RESULT, pa.field("result", pa.string()))  # a result is JSON: text for Spark
ENDED = (State.DONE, State.DEAD, State.CANCELLED)


def read_row_outcomes(spark: SparkSession, url: str, space: str, queue: str, ids: Sequence[str] | None) -> DataFrame:
    """Return one row for each job of the queue that has ended. Runs on the Spark driver.

    ``ids`` are some of the job ids in order, among them the first and the last: they split the read. With None one
    Spark task reads the whole queue.
    """
    if ids is None:
        read = partial(_read_ranges, url=url, space=space, queue=queue, limits=[None, None])
        return spark.range(0, 1, 1, 1).mapInArrow(read, ddl(SCHEMA))
    parts = max(1, min(cores(spark), len(ids) - 1))
    limits = [ids[part * (len(ids) - 1) // parts] for part in range(parts + 1)] if ids else []
    read = partial(_read_ranges, url=url, space=space, queue=queue, limits=limits)
    return spark.range(0, max(0, len(limits) - 1), 1, parts).mapInArrow(read, ddl(SCHEMA))


def _read_ranges(
    batches: Iterator[pa.RecordBatch], *, url: str, space: str, queue: str, limits: Sequence[str | None]
) -> Iterator[pa.RecordBatch]:
    """Body of the Spark task, on an executor. Its input are the numbers of the ranges to read."""
    store, where = open_store(url, space), JobFilter(queue=queue, states=ENDED)
    for part in [number for batch in batches for number in batch.column(0).to_pylist()]:
        if part == 0 and limits[0] is not None:  # a range does not include its first id: that id is read separately
            first = store.get(limits[0])
            if first is not None and first.state.has_ended:
                yield _batch([[getattr(first, name)] for name in _JOB_COLUMNS])
        start, end = limits[part], limits[part + 1]
        for columns in job_pages(store, where, _JOB_COLUMNS, limit=bounds.MAX_BATCH_ITEMS, after=start, upto=end):
            yield _batch(columns)


def _batch(columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _STORED.types, strict=True)]
    error = _STORED.get_field_index("error")
    arrays[error] = pa.array([text or None for text in columns[error]], pa.string())
    arrays[_RESULT] = arrays[_RESULT].cast(pa.string())
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
