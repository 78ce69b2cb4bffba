"""Jobs as Arrow, and the filters of Spark as those of the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import msgspec
import pyarrow as pa
from pyspark.sql import datasource as ds

from holdfast.clock import from_datetime
from holdfast.drivers.contract import JobFilter, Store
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.spark.history.store_reader import pages

PAGE = 5_000  # jobs, with their payloads

_INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("type", pa.string()),
        ("queue", pa.string()),
        ("state", pa.string()),
        ("payload", pa.binary()),
        ("priority", pa.int32()),
        ("run_at", _INSTANT),
        ("requested_run_at", _INSTANT),
        ("timeout", pa.duration("us")),
        ("created_at", _INSTANT),
        ("attempts", pa.int32()),
        ("max_attempts", pa.int32()),
        ("crashes", pa.int32()),
        ("max_crashes", pa.int32()),
        ("idempotency_key", pa.string()),
        ("domain", pa.string()),
        ("offset", pa.int64()),
        ("name", pa.string()),
        ("meta", pa.string()),
        ("webhook", pa.string()),
        ("signature", pa.string()),
        ("last_error", pa.string()),
        ("failed_at", _INSTANT),
        ("dead_reason", pa.string()),
        ("dead_at", _INSTANT),
        ("result", pa.binary()),
    ]
)
DDL = (
    "id string, type string, queue string, state string, payload binary, priority int, run_at timestamp, "
    "requested_run_at timestamp, timeout interval day to second, created_at timestamp, attempts int, max_attempts int, "
    "crashes int, max_crashes int, idempotency_key string, domain string, offset bigint, name string, meta string, "
    "webhook string, signature string, last_error string, failed_at timestamp, dead_reason string, dead_at timestamp, "
    "result binary"
)
_META = SCHEMA.names.index("meta")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs: those of a filter, or those with these ids that also fit it as far as Spark looks again."""

    where: JobFilter = field(default_factory=JobFilter)
    ids: tuple[str, ...] | None = None
    none: bool = False  # the filters contradict one another


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Ids behind ``after`` up to ``upto`` (None: to the end)."""

    after: str | None = None
    upto: str | None = None


def read(store: Store, wanted: Wanted, within: Range) -> Iterator[pa.RecordBatch]:
    """Each job once: a page is one look at all states, so that a job that moves meanwhile is seen in one of them."""
    if wanted.none:
        return
    if wanted.ids is not None:
        found = [job for job_id in wanted.ids if (job := store.get(job_id)) is not None]
        if found:
            yield _to_arrow(found)
        return
    for columns in pages(store, wanted.where, SCHEMA.names, limit=PAGE, after=within.after, upto=within.upto):
        yield _batch(columns)


def _to_arrow(jobs: Sequence[JobRecord]) -> pa.RecordBatch:
    return _batch([[getattr(job, name) for job in jobs] for name in SCHEMA.names])


def _batch(columns: list[Sequence[object]]) -> pa.RecordBatch:
    columns[_META] = [_encode(meta).decode() for meta in columns[_META]]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def ranges(store: Store, wanted: Wanted, *, pieces: int, now: int) -> list[Range]:
    """Ranges of ids that cover everything. Ids begin with the time: even stretches of it are a fair guess."""
    whole = [Range()]
    if pieces == 1 or wanted.none or wanted.ids is not None:
        return whole
    queues = None if wanted.where.queue is None else [wanted.where.queue]
    states = wanted.where.states or tuple(State)
    total = sum(getattr(count, state) for count in store.counts(queues) for state in states)
    pieces = min(pieces, -(-total // (4 * PAGE)))
    oldest = store.find(wanted.where, limit=1).items if pieces > 1 else []
    begins = _time_of(oldest[0].id) if oldest else None
    if begins is None or now // 1000 <= begins:
        return whole
    step = (now // 1000 - begins) / pieces
    limits = [None, *(_id_at(int(begins + step * place)) for place in range(1, pieces)), None]
    return [Range(after=after, upto=upto) for after, upto in pairwise(limits)]


def _time_of(job_id: str) -> int | None:
    """The milliseconds in a UUIDv7; None for ids that somebody else made."""
    try:
        made = UUID(job_id)
    except ValueError:
        return None
    return made.int >> 80 if made.version == 7 else None


def _id_at(milliseconds: int) -> str:
    return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7000-8000-000000000000"


# Filters ---------------------------------------------------------------------------------------------------------

_EXACT = {
    **{name: name for name in ("queue", "type", "domain", "name", "idempotency_key")},
    "dead_reason": "reason",
}
_ALWAYS = frozenset({"id", "type", "queue", "state", "payload", "created_at"})  # never null


class Pushed:
    """Takes over the filters that a store knows; the others, and those on instants, Spark looks at (again) itself."""

    def __init__(self) -> None:
        self.wanted = Wanted()

    def take(self, filters: Iterable[ds.Filter]) -> Iterator[ds.Filter]:
        """Give back what Spark still has to do."""
        for one in filters:
            if not self._taken(one):
                yield one

    def _taken(self, one: ds.Filter) -> bool:
        match one:
            case ds.IsNotNull(attribute=(name,)):
                return name in _ALWAYS
            case ds.EqualTo(attribute=("state",), value=str(state)):
                return self._states([state])
            case ds.In(attribute=("state",), value=states):
                return self._states(states)
            case ds.EqualTo(attribute=("id",), value=str(job_id)):
                return self._ids([job_id])
            case ds.In(attribute=("id",), value=ids):
                return self._ids(ids)
            case ds.EqualTo(attribute=(name,), value=str(value)) if name in _EXACT:
                return self._exact(_EXACT[name], value)
            case (
                ds.GreaterThan(attribute=("created_at",), value=value)
                | ds.GreaterThanOrEqual(attribute=("created_at",), value=value)
            ):
                return self._created("created_from", value, timedelta())
            case (
                ds.LessThan(attribute=("created_at",), value=value)
                | ds.LessThanOrEqual(attribute=("created_at",), value=value)
            ):
                return self._created("created_before", value, timedelta(microseconds=1))
            case _:
                return False

    def _states(self, asked: Sequence[object]) -> bool:
        if self.wanted.ids is not None:
            return False
        known = set(State) if self.wanted.where.states is None else set(self.wanted.where.states)
        states = tuple(state for state in State if state in known and state.value in asked)
        self.wanted = replace(self.wanted, where=replace(self.wanted.where, states=states), none=not states)
        return True

    def _ids(self, asked: Sequence[object]) -> bool:
        """Looked up one by one; other filters are then Spark's, as are ids beyond a page or that no job can have."""
        if self.wanted.ids is not None or self.wanted.where != JobFilter() or len(asked) > PAGE:
            return False
        self.wanted = replace(self.wanted, ids=tuple(dict.fromkeys(str(name) for name in asked if _is_name(name))))
        return True

    def _exact(self, name: str, value: str) -> bool:
        if self.wanted.ids is not None or getattr(self.wanted.where, name) is not None:
            return False
        self._narrow(name, value)
        return True

    def _created(self, name: str, value: object, more: timedelta) -> bool:
        """A bound that lets through at least what fits; Spark looks again."""
        if isinstance(value, datetime) and value.tzinfo is not None and getattr(self.wanted.where, name) is None:
            self._narrow(name, from_datetime(value + more))
        return False

    def _narrow(self, name: str, value: object) -> None:
        self.wanted = replace(self.wanted, where=replace(self.wanted.where, **{name: value}))  # type: ignore[arg-type]


def _is_name(value: object) -> bool:
    try:
        bounds.check_name("id", value)
    except ValueError:
        return False
    return True
