"""Jobs and their keys as the rows of a binary COPY.

Of jobs that are alike, what they share is packed once, and the rest column by column: Python takes no step for each of
their fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import TypeAlias, cast

from holdfast.drivers.postgres.batch import DIGEST_SIZE, digest_of
from holdfast.drivers.postgres.rows import pack_meta
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch, representatives

BLOCK = 500  # jobs that are packed and sent at a time
KEY = "idempotency_key"
START = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
END = struct.pack(">h", -1)
KEY_COLUMNS = ("space", "queue", "until", "key", "job_id", "digest")
LEASE_COLUMNS = ("state", "worker", "attempts", "reserved_at", "expires_at", "check_at", "fence", "token")

Packer: TypeAlias = Callable[[JobRecord], bytes]
Column: TypeAlias = Iterable[bytes]
_NULL = struct.pack(">i", -1)
_ALWAYS = (
    *("space", "queue", "type", "priority", "turn", "enqueued_at", "max_attempts", "max_crashes"),
    *("id", "available_at", "created_at", "payload"),
)
_length = struct.Struct(">i").pack
_bigint = struct.Struct(">iq").pack
_integer = struct.Struct(">ii").pack
_digest_head = _length(DIGEST_SIZE)
_instants = struct.Struct(">iqiq").pack  # available_at and created_at


def _text(value: str | None) -> bytes:
    if value is None:
        return _NULL
    data = value.encode()
    return _length(len(data)) + data


def _blob(value: bytes | None) -> bytes:
    return _NULL if value is None else _length(len(value)) + value


def _number(value: int | None) -> bytes:
    return _NULL if value is None else _bigint(8, value)


# Columns that most batches do not set at all: copied only if one of the jobs does.
_SOMETIMES: dict[str, Packer] = {
    "run_at": lambda job: _number(job.run_at),
    "requested_run_at": lambda job: _number(job.requested_run_at),
    "timeout": lambda job: _number(job.timeout),
    "attempts": lambda job: _integer(4, job.attempts),
    "crashes": lambda job: _integer(4, job.crashes),
    "domain": lambda job: _text(job.domain),
    "offset": lambda job: _number(job.offset),
    "name": lambda job: _text(job.name),
    "meta": lambda job: _blob(pack_meta(job.meta)),
    "webhook": lambda job: _text(job.webhook),
    "signature": lambda job: _text(job.signature),
    "last_error": lambda job: _text(job.last_error),
    "failed_at": lambda job: _number(job.failed_at),
    KEY: lambda job: _text(job.idempotency_key),  # the last: it is the one that alike jobs do not share
}


@dataclass(frozen=True, slots=True)
class Leases:
    """What jobs are born with, in the order of the jobs."""

    now: int
    expires_at: int
    worker: str
    attempt: int
    fences: Sequence[int]
    tokens: Sequence[str]

    def columns(self, block: slice) -> list[Column]:
        """Of some of the jobs, in the order of ``LEASE_COLUMNS``."""
        expires_at = _bigint(8, self.expires_at)
        head = (_text("inflight"), _text(self.worker), _integer(4, self.attempt), _bigint(8, self.now))
        fences = map(_bigint, repeat(8), self.fences[block])
        return [repeat(b"".join((*head, expires_at, expires_at))), fences, *_texts(self.tokens[block])]


def columns_of(jobs: Sequence[JobRecord]) -> tuple[str, ...]:
    """The columns of the table that these jobs set."""
    columns = (*_ALWAYS, *(name for name in _SOMETIMES if any(map(attrgetter(name), representatives(jobs)))))
    if isinstance(jobs, JobBatch) and jobs.keys is not None and KEY not in columns:
        columns = (*columns, KEY)
    return columns


def packed(space: str, jobs: Sequence[JobRecord], columns: Sequence[str], now: int) -> Iterator[bytes]:
    """The rows of the jobs, a block at a time: the server stores one while the next is packed."""
    packers = [_SOMETIMES[name] for name in columns[len(_ALWAYS) :]]
    fields = struct.pack(">h", len(columns))
    for start in range(0, len(jobs), BLOCK):
        block = jobs[start : start + BLOCK]
        if isinstance(block, JobBatch):
            yield _rows(*_alike(fields, space, block, packers, now))
        else:
            yield b"".join(_different(fields, space, block, packers, now))


def packed_leased(space: str, jobs: JobBatch, columns: Sequence[str], leases: Leases) -> Iterator[bytes]:
    """The same with the columns of a lease behind the others."""
    packers = [_SOMETIMES[name] for name in columns[len(_ALWAYS) :]]
    fields = struct.pack(">h", len(columns) + len(LEASE_COLUMNS))
    for start in range(0, len(jobs), BLOCK):
        block = slice(start, start + BLOCK)
        yield _rows(*_alike(fields, space, jobs[block], packers, leases.now), *leases.columns(block))


def packed_keys(space: str, jobs: Sequence[JobRecord], until: Mapping[str, int]) -> bytes:
    """The rows of the keys. Sorted, so that two calls wait for each other in one direction."""
    if isinstance(jobs, JobBatch):
        rows = list(zip(repeat(jobs.template.queue), jobs.keys or (), jobs.ids, jobs.payloads, strict=False))
    else:
        rows = [(job.queue, job.idempotency_key, job.id, job.payload) for job in jobs]
    keyed = sorted(row for row in rows if row[1] is not None)
    if not keyed:
        return b""
    queues, keys, ids, payloads = zip(*keyed, strict=True)
    head = struct.pack(">h", len(KEY_COLUMNS)) + _text(space)
    heads = {queue: head + _text(queue) + _bigint(8, end) for queue, end in until.items()}
    digests = map(digest_of, payloads)
    return _rows(map(heads.__getitem__, queues), *_texts(keys), *_texts(ids), repeat(_digest_head), digests)


def _different(fields: bytes, space: str, jobs: Sequence[JobRecord], packers: list[Packer], now: int) -> list[bytes]:
    parts: list[bytes] = []
    heads: dict[tuple[object, ...], bytes] = {}
    for job in jobs:
        shape = (job.queue, job.type, job.priority, job.max_attempts, job.max_crashes, job.domain is None)
        head = heads.get(shape)
        if head is None:
            head = heads[shape] = fields + _head(space, job, now)
        identity, payload = job.id.encode(), job.payload
        available_at = now if job.run_at is None else job.run_at
        parts += (
            head,
            _length(len(identity)),
            identity,
            _instants(8, available_at, 8, job.created_at),
            _length(len(payload)),
            payload,
        )
        if packers:
            parts += [pack(job) for pack in packers]
    return parts


def _alike(fields: bytes, space: str, jobs: JobBatch, packers: list[Packer], now: int) -> list[Column]:
    """The same of jobs that share everything else, by columns. Their keys are the last one, if they have any."""
    template = jobs.template
    before = fields + _head(space, template, now)
    shared = packers[:-1] if jobs.keys is not None else packers
    after = b"".join(pack(template) for pack in shared)
    instants = _instants(8, now if template.run_at is None else template.run_at, 8, template.created_at)
    columns = [repeat(before), *_texts(jobs.ids), repeat(instants), *_sized(jobs.payloads), repeat(after)]
    if jobs.keys is not None:
        columns += [map(_text, jobs.keys)] if None in jobs.keys else _texts(cast("Sequence[str]", jobs.keys))
    return columns


def _head(space: str, job: JobRecord, now: int) -> bytes:
    """What many jobs of a batch have in common."""
    return b"".join(
        (
            _text(space),
            _text(job.queue),
            _text(job.type),
            _integer(4, job.priority),
            _blob(b"\1" if job.domain is None else b"\0"),
            _bigint(8, now),
            _integer(4, job.max_attempts),
            _NULL if job.max_crashes is None else _integer(4, job.max_crashes),
        )
    )


def _texts(values: Sequence[str]) -> list[Column]:
    return _sized([value.encode() for value in values])


def _sized(values: Sequence[bytes]) -> list[Column]:
    return [map(_length, map(len, values)), values]


def _rows(*columns: Column) -> bytes:
    """Row by row, until the shortest column ends."""
    return b"".join(chain.from_iterable(zip(*columns, strict=False)))
