"""Jobs and idempotency keys as the rows of a binary COPY.

The jobs of a ``JobBatch`` differ only in id, payload, key, signature and limit key. Their shared columns are packed
once and the others column by column, so that Python executes no bytecode per field. Other jobs are packed one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, TypeAlias, cast

import msgspec

from holdfast.drivers.packing import DIGEST_BYTES, digest_of, pack_meta
from holdfast.drivers.postgres.columns import STORED_COLUMNS, sql_type
from holdfast.model.columns import Column, Kind
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch, representatives
from holdfast.model.unique import WHILE_QUEUED, window_of

BLOCK_JOBS = 500  # jobs that are packed and sent at a time
KEY, SIGNATURE, LIMIT_KEY = "idempotency_key", "signature", "limit_key"
START = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
END = struct.pack(">h", -1)
KEY_COLUMNS = ("space", "queue", "until", "while_queued", "key", "job_id", "digest")
LEASE_COLUMNS = ("state", "worker", "prefetched", "attempts", "reserved_at", "expires_at", "check_at", "fence", "token")

Packer: TypeAlias = Callable[[JobRecord], bytes]
PackedColumn: TypeAlias = Iterable[bytes]
# Columns of every row, in the order in which they are packed: those of _pack_head, then those that differ by job.
_REQUIRED_COLUMNS = (
    *("space", "queue", "type", "priority", "turn", "enqueued_at", "max_attempts", "max_crashes"),
    *("id", "available_at", "created_at", "payload"),
)
_NULL = struct.pack(">i", -1)
_TRUE = struct.pack(">ib", 1, 1)
_FALSE = struct.pack(">ib", 1, 0)
_pack_length = struct.Struct(">i").pack
_pack_bigint = struct.Struct(">iq").pack
_pack_integer = struct.Struct(">ii").pack
_pack_instants = struct.Struct(">iqiq").pack  # available_at and created_at
_DIGEST_LENGTH = _pack_length(DIGEST_BYTES)


def _pack_text(value: str | None) -> bytes:
    if value is None:
        return _NULL
    data = value.encode()
    return _pack_length(len(data)) + data


def _pack_blob(value: bytes | None) -> bytes:
    return _NULL if value is None else _pack_length(len(value)) + value


_VALUE_PACKERS: dict[str, Callable[[Any], bytes]] = {
    "text": _pack_text,
    "bytea": _pack_blob,
    "integer": lambda value: _NULL if value is None else _pack_integer(4, value),
    "bigint": lambda value: _NULL if value is None else _pack_bigint(8, value),
}


def _packer_of(column: Column) -> Packer:
    if column.kind is Kind.JSON:
        return lambda job: _pack_blob(pack_meta(job.meta))
    value, pack = attrgetter(column.name), _VALUE_PACKERS[sql_type(column)]
    return lambda job: pack(value(job))


# Columns that most batches do not set: they are copied only if a job of the batch sets them.
_OPTIONAL_PACKERS: dict[str, Packer] = {
    column.name: _packer_of(column) for column in STORED_COLUMNS if column.name not in _REQUIRED_COLUMNS
}
_DEFAULTS: dict[str, object] = {field.name: field.default for field in msgspec.structs.fields(JobRecord)} | {"meta": {}}


@dataclass(frozen=True, slots=True)
class NewLeases:
    """The leases that jobs are stored with; fences and tokens are in the order of the jobs."""

    now: int
    expires_at: int
    worker: str
    attempt: int
    fences: Sequence[int]
    tokens: Sequence[str]

    def pack_columns(self, block: slice) -> list[PackedColumn]:
        """Return the packed ``LEASE_COLUMNS`` of some of the jobs."""
        expires_at = _pack_bigint(8, self.expires_at)
        shared = (
            _pack_text("inflight"),
            _pack_text(self.worker),
            _TRUE,
            _pack_integer(4, self.attempt),
            _pack_bigint(8, self.now),
            expires_at,
            expires_at,
        )
        fences = map(_pack_bigint, repeat(8), self.fences[block])
        return [repeat(b"".join(shared)), fences, *_pack_text_column(self.tokens[block])]


def columns_of(jobs: Sequence[JobRecord]) -> tuple[str, ...]:
    """Return the columns of the table that these jobs set; the last ones are those that differ within a batch."""
    shapes = representatives(jobs)
    if not isinstance(jobs, JobBatch):
        return (*_REQUIRED_COLUMNS, *(name for name in _OPTIONAL_PACKERS if _is_set(name, shapes)))
    own = _own_columns(jobs)
    shared = (name for name in _OPTIONAL_PACKERS if name not in (KEY, SIGNATURE, *own) and _is_set(name, shapes))
    return (*_REQUIRED_COLUMNS, *shared, *own)


def _own_columns(jobs: JobBatch) -> dict[str, Sequence[str | None]]:
    """Return the optional columns whose values differ within the batch."""
    columns = {KEY: jobs.keys, SIGNATURE: jobs.signatures, LIMIT_KEY: jobs.limit_keys}
    return {name: values for name, values in columns.items() if values is not None}


def _is_set(name: str, jobs: Sequence[JobRecord]) -> bool:
    """Whether a job has another value than the default, which the column has, too. 0 may differ from it."""
    return list(map(attrgetter(name), jobs)).count(_DEFAULTS[name]) < len(jobs)


def pack_jobs(space: str, jobs: Sequence[JobRecord], columns: Sequence[str], now: int) -> Iterator[bytes]:
    """Yield the rows of the jobs in blocks: the server stores one block while the next one is packed."""
    packers = [_OPTIONAL_PACKERS[name] for name in columns[len(_REQUIRED_COLUMNS) :]]
    field_count = struct.pack(">h", len(columns))
    for start in range(0, len(jobs), BLOCK_JOBS):
        block = jobs[start : start + BLOCK_JOBS]
        if isinstance(block, JobBatch):
            yield _join_rows(*_pack_batch(field_count, space, block, columns, now))
        else:
            yield b"".join(_pack_each(field_count, space, block, packers, now))


def pack_leased_jobs(space: str, jobs: JobBatch, columns: Sequence[str], leases: NewLeases) -> Iterator[bytes]:
    """Yield the rows of the jobs, each followed by ``LEASE_COLUMNS``."""
    field_count = struct.pack(">h", len(columns) + len(LEASE_COLUMNS))
    for start in range(0, len(jobs), BLOCK_JOBS):
        block = slice(start, start + BLOCK_JOBS)
        packed = _pack_batch(field_count, space, jobs[block], columns, leases.now)
        yield _join_rows(*packed, *leases.pack_columns(block))


def pack_keys(space: str, jobs: Sequence[JobRecord], now: int, windows: Mapping[str, int]) -> bytes:
    """Return the rows of the keys, sorted: two calls that share keys wait for each other in one direction.

    ``windows`` are the dedupe windows of the queues.
    """
    shapes = {(job.queue, job.unique_for) for job in representatives(jobs)}
    heads = {shape: _pack_key_head(space, *shape, now, windows) for shape in shapes}
    if isinstance(jobs, JobBatch):
        [head] = heads.values()
        queue = jobs.template.queue
        rows = list(zip(repeat(queue), jobs.keys or (), jobs.ids, jobs.payloads, repeat(head), strict=False))
    else:
        rows = [(job.queue, job.idempotency_key, job.id, job.payload, heads[job.queue, job.unique_for]) for job in jobs]
    keyed = sorted(row for row in rows if row[1] is not None)
    if not keyed:
        return b""
    _, keys, ids, payloads, key_heads = zip(*keyed, strict=True)
    return _join_rows(
        key_heads,
        *_pack_text_column(keys),
        *_pack_text_column(ids),
        repeat(_DIGEST_LENGTH),
        map(digest_of, payloads),
    )


def _pack_key_head(space: str, queue: str, unique_for: int | None, now: int, windows: Mapping[str, int]) -> bytes:
    """Return the columns that many keys of a batch share, and the number of all columns."""
    return b"".join(
        (
            struct.pack(">h", len(KEY_COLUMNS)),
            _pack_text(space),
            _pack_text(queue),
            _pack_bigint(8, now + window_of(unique_for, windows[queue])),
            _TRUE if unique_for == WHILE_QUEUED else _FALSE,
        )
    )


def _pack_each(
    field_count: bytes, space: str, jobs: Sequence[JobRecord], packers: list[Packer], now: int
) -> list[bytes]:
    """Return the parts of the rows of any jobs; the head is packed once per combination of its columns."""
    parts: list[bytes] = []
    heads: dict[tuple[object, ...], bytes] = {}
    for job in jobs:
        shape = (job.queue, job.type, job.priority, job.max_attempts, job.max_crashes, job.domain is None)
        head = heads.get(shape)
        if head is None:
            head = heads[shape] = field_count + _pack_head(space, job, now)
        job_id, payload = job.id.encode(), job.payload
        available_at = now if job.run_at is None else job.run_at
        parts += (
            head,
            _pack_length(len(job_id)),
            job_id,
            _pack_instants(8, available_at, 8, job.created_at),
            _pack_length(len(payload)),
            payload,
        )
        if packers:
            parts += [pack(job) for pack in packers]
    return parts


def _pack_batch(field_count: bytes, space: str, jobs: JobBatch, columns: Sequence[str], now: int) -> list[PackedColumn]:
    """Return the rows of a batch as columns; the last ones are those of ``_own_columns``."""
    template, own = jobs.template, _own_columns(jobs)
    before = field_count + _pack_head(space, template, now)
    shared = (name for name in columns[len(_REQUIRED_COLUMNS) :] if name not in own)
    after = b"".join(_OPTIONAL_PACKERS[name](template) for name in shared)
    instants = _pack_instants(8, now if template.run_at is None else template.run_at, 8, template.created_at)
    packed = [
        repeat(before),
        *_pack_text_column(jobs.ids),
        repeat(instants),
        *_pack_blob_column(jobs.payloads),
        repeat(after),
    ]
    for values in own.values():
        has_gaps = None in values
        packed += [map(_pack_text, values)] if has_gaps else _pack_text_column(cast("Sequence[str]", values))
    return packed


def _pack_head(space: str, job: JobRecord, now: int) -> bytes:
    """Return the columns that many jobs of a batch share."""
    return b"".join(
        (
            _pack_text(space),
            _pack_text(job.queue),
            _pack_text(job.type),
            _pack_integer(4, job.priority),
            _TRUE if job.domain is None else _FALSE,
            _pack_bigint(8, now),
            _pack_integer(4, job.max_attempts),
            _NULL if job.max_crashes is None else _pack_integer(4, job.max_crashes),
        )
    )


def _pack_text_column(values: Sequence[str]) -> list[PackedColumn]:
    return _pack_blob_column([value.encode() for value in values])


def _pack_blob_column(values: Sequence[bytes]) -> list[PackedColumn]:
    return [map(_pack_length, map(len, values)), values]


def _join_rows(*columns: PackedColumn) -> bytes:
    """Return the columns row by row, until the shortest one ends (some repeat without end)."""
    return b"".join(chain.from_iterable(zip(*columns, strict=False)))
