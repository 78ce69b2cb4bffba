"""Large batches by COPY, which writes rows a page at a time: more than twice as quick as any INSERT.

It costs a few round trips (the store's now, the keys, the rows, a look at what has ended, the commit), and cannot
answer for jobs that exist: if an id or a key of the batch is known, ``enqueue_1`` takes the batch instead.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

import psycopg

from holdfast.drivers.postgres.arrays import Array, bigints, integers, names
from holdfast.drivers.postgres.batch import DIGEST_SIZE, WINDOW, digest_of
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.rows import pack_meta
from holdfast.drivers.postgres.store import PostgresStore
from holdfast.model.alike import Alike
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued, added

COPY_FROM = 500  # jobs; below, one round trip is worth more
BLOCK = 500  # jobs that are packed and sent at a time
Packer: TypeAlias = Callable[[JobRecord], bytes]
_START = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_NULL = struct.pack(">i", -1)
_ALWAYS = (
    *("space", "queue", "type", "priority", "turn", "enqueued_at", "max_attempts", "max_crashes"),
    *("id", "available_at", "created_at", "payload"),
)
_length = struct.Struct(">i").pack
_bigint = struct.Struct(">iq").pack
_integer = struct.Struct(">ii").pack
_digest_head = _length(DIGEST_SIZE)
_instants = struct.Struct(">iqiqi").pack  # available_at, created_at and the length of the payload


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
    "idempotency_key": lambda job: _text(job.idempotency_key),  # the last: it is the one that alike jobs do not share
}
_KEY_COLUMNS = ("space", "queue", "until", "key", "job_id", "digest")


def copy_on(
    store: PostgresStore, connection: Connection, jobs: Sequence[JobRecord], given: int | None, *, alone: bool
) -> list[Enqueued] | None:
    """All of them stored, or none and None: they are too few, or some id or key is known."""
    if len(jobs) < COPY_FROM:
        return None
    space = store.space_name
    ids = jobs.ids if isinstance(jobs, Alike) else [job.id for job in jobs]
    kinds = jobs[:1] if isinstance(jobs, Alike) else jobs  # in everything but id, payload and key
    lanes = _lanes(kinds)
    domains = {(job.queue, job.domain) for job in kinds if job.domain is not None}
    told_of = names([queue for queue, _ in domains]), names([str(domain) for _, domain in domains])
    columns = (*_ALWAYS, *(name for name in _SOMETIMES if any(map(attrgetter(name), kinds))))
    keyed = isinstance(jobs, Alike) and jobs.keys is not None
    if keyed and "idempotency_key" not in columns:
        columns = (*columns, "idempotency_key")
    try:
        with connection.transaction():
            asked = (space, given, store.channel, alone, WINDOW, *_columns(lanes))
            [(now, windows)] = store.function_on(connection, "copying_1", *asked)
            if "idempotency_key" in columns:  # first, because it is what fails if a batch is sent again
                until = {queue: now + window for (queue, _, _), window in zip(lanes, windows, strict=True)}
                _copy(store, connection, "dedupe", _KEY_COLUMNS, [_packed_keys(space, jobs, until)])
            _copy(store, connection, "jobs", columns, _packed(space, jobs, columns, now))
            [(doubtful,)] = store.function_on(connection, "copied_2", space, min(ids), max(ids), *told_of)
            if doubtful:
                store.function_on(connection, "copied_1", space, names(ids), None, None)
    except psycopg.errors.UniqueViolation:
        return None
    return added(ids)


def _copy(
    store: PostgresStore, connection: Connection, table: str, columns: Sequence[str], blocks: Iterable[bytes]
) -> None:
    with connection.cursor() as cursor, cursor.copy(store.copy_statement(table, columns)) as copy:
        copy.write(_START)
        for block in blocks:
            copy.write(block)
        copy.write(_END)


Lanes = dict[tuple[str, str, int], int | None]


def _lanes(jobs: Sequence[JobRecord]) -> Lanes:
    """The lanes, and when the first job of each may run: None is at once."""
    first: Lanes = {}
    for job in jobs:
        lane = job.queue, job.type, job.priority
        other = first.get(lane, job.run_at)
        first[lane] = None if job.run_at is None or other is None else min(job.run_at, other)
    return first


def _columns(lanes: Lanes) -> tuple[Array | None, ...]:
    return (
        names([queue for queue, _, _ in lanes]),
        names([type_ for _, type_, _ in lanes]),
        integers([priority for _, _, priority in lanes]),
        bigints(list(lanes.values())),
    )


def _packed_keys(space: str, jobs: Sequence[JobRecord], until: Mapping[str, int]) -> bytes:
    """The rows of the keys. Sorted, so that two calls wait for each other in one direction."""
    if isinstance(jobs, Alike):
        rows = [
            (jobs.like.queue, key, job_id, payload)
            for key, job_id, payload in zip(jobs.keys or (), jobs.ids, jobs.payloads, strict=True)
            if key is not None
        ]
    else:
        rows = [
            (job.queue, job.idempotency_key, job.id, job.payload) for job in jobs if job.idempotency_key is not None
        ]
    rows.sort()
    head = struct.pack(">h", len(_KEY_COLUMNS)) + _text(space)
    heads = {queue: head + _text(queue) + _bigint(8, end) for queue, end in until.items()}
    parts: list[bytes] = []
    for queue, key, job_id, payload in rows:
        told, named = key.encode(), job_id.encode()
        parts += (heads[queue], _length(len(told)), told, _length(len(named)), named, _digest_head, digest_of(payload))
    return b"".join(parts)


def _packed(space: str, jobs: Sequence[JobRecord], columns: Sequence[str], now: int) -> Iterator[bytes]:
    """The rows of the jobs, a block at a time: the server stores one while the next is packed."""
    packers = [_SOMETIMES[name] for name in columns[len(_ALWAYS) :]]
    fields = struct.pack(">h", len(columns))
    for start in range(0, len(jobs), BLOCK):
        block = jobs[start : start + BLOCK]
        if isinstance(block, Alike):
            yield b"".join(_pack_alike(fields, space, block, packers, now))
        else:
            yield b"".join(_pack(fields, space, block, packers, now))


def _pack(fields: bytes, space: str, jobs: Sequence[JobRecord], packers: list[Packer], now: int) -> list[bytes]:
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
            _instants(8, available_at, 8, job.created_at, len(payload)),
            payload,
        )
        if packers:
            parts += [pack(job) for pack in packers]
    return parts


def _pack_alike(fields: bytes, space: str, jobs: Alike, packers: list[Packer], now: int) -> list[bytes]:
    """The same of jobs that share everything else: it is packed once. Their keys are the last column, if any."""
    like = jobs.like
    before = fields + _head(space, like, now)
    shared = packers[:-1] if jobs.keys is not None else packers
    after = b"".join(pack(like) for pack in shared)
    available_at = now if like.run_at is None else like.run_at
    parts: list[bytes] = []
    for job_id, payload in zip(jobs.ids, jobs.payloads, strict=True):
        identity = job_id.encode()
        parts += (
            before,
            _length(len(identity)),
            identity,
            _instants(8, available_at, 8, like.created_at, len(payload)),
            payload,
            after,
        )
    if jobs.keys is not None:
        parts[5::6] = [after + _text(key) for key in jobs.keys]
    return parts


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
