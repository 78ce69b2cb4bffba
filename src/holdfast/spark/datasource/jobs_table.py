"""The jobs of a store as Arrow batches. ``split_ids`` runs on the Spark driver, ``read`` on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

import msgspec
import pyarrow as pa

from holdfast.drivers.requests import Counts
from holdfast.drivers.store import Store
from holdfast.model.columns import JOB_COLUMNS
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.spark.column_schemas import ddl, job_fields
from holdfast.spark.job_pages import job_pages

PAGE_JOBS = 5_000  # with their payloads
PAGES_PER_PARTITION = 4  # fewer are not worth a Spark task

_PLACED_AFTER = {"state": "queue", "requested_run_at": "run_at"}  # users see these columns there, not at the end


def _column_names() -> list[str]:
    names = [column.name for column in JOB_COLUMNS if column.name not in _PLACED_AFTER]
    for name, predecessor in _PLACED_AFTER.items():
        names.insert(names.index(predecessor) + 1, name)
    return names


SCHEMA = pa.schema(job_fields(*_column_names()))
DDL = ddl(SCHEMA)
_META = SCHEMA.get_field_index("meta")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """The ids after ``after``, up to and including ``upto``. None is no limit."""

    after: str | None = None
    upto: str | None = None


def read(store: Store, where: JobFilter, ids: IdRange) -> Iterator[pa.RecordBatch]:
    """Return each job once. A page reads all states together, so a job that changes its state is not returned twice."""
    for columns in job_pages(store, where, SCHEMA.names, limit=PAGE_JOBS, after=ids.after, upto=ids.upto):
        yield _batch(columns)


def _batch(columns: list[Sequence[object]]) -> pa.RecordBatch:
    columns[_META] = [_encode(meta).decode() for meta in columns[_META]]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def split_ids(store: Store, where: JobFilter, *, most: int, now: int) -> list[IdRange]:
    """Return at most ``most`` ranges that cover all ids.

    An id begins with the time of its creation. Ranges of equal time are only an estimate of equal numbers of jobs.
    """
    everything = [IdRange()]
    if most == 1:
        return everything
    queues = None if where.queue is None else [where.queue]
    states = where.states or tuple(State)
    counts = store.do(Counts(queues=queues, states=states))
    total = sum(getattr(count, state) for count in counts for state in states)
    parts = min(most, -(-total // (PAGES_PER_PARTITION * PAGE_JOBS)))
    if parts <= 1:
        return everything
    page = store.find(where, limit=1)
    oldest = page.items[0].id if page.items else page.cursor  # a page without jobs has passed rows that do not match
    start = None if oldest is None else _milliseconds_of(oldest)
    if start is None or now // 1000 <= start:
        return everything
    step = (now // 1000 - start) / parts
    limits = [None, *(_first_id_at(int(start + step * part)) for part in range(1, parts)), None]
    return [IdRange(after=after, upto=upto) for after, upto in pairwise(limits)]


def _milliseconds_of(job_id: str) -> int | None:
    """Return the time in a UUIDv7; None for an id of another form."""
    try:
        uuid = UUID(job_id)
    except ValueError:
        return None
    return uuid.int >> 80 if uuid.version == 7 else None


def _first_id_at(milliseconds: int) -> str:
    return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7000-8000-000000000000"
