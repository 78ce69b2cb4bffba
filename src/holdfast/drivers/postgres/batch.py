"""A batch of records or settlements as the columns that the functions of ``schema/`` take."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import attrgetter

from holdfast.drivers.postgres.arrays import Array, bigints, blobs, booleans, integers, names, texts
from holdfast.drivers.postgres.rows import pack_meta
from holdfast.model.job import JobRecord
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement

Columns = list[Array | None]
WINDOW = QueueSettings().dedupe_window
DIGEST_SIZE = 16  # bytes


def jobs(records: Sequence[JobRecord]) -> Columns:
    """The columns of ``enqueue_1``."""
    return [
        names([job.id for job in records]),
        names([job.queue for job in records]),
        names([job.type for job in records]),
        integers([job.priority for job in records]),
        blobs([job.payload for job in records]),
        bigints([job.created_at for job in records]),
        integers([job.max_attempts for job in records]),
        integers([job.max_crashes for job in records]),
        integers([job.attempts or None for job in records]),
        integers([job.crashes or None for job in records]),
        bigints([job.run_at for job in records]),
        bigints([job.requested_run_at for job in records]),
        bigints([job.timeout for job in records]),
        bigints([job.failed_at for job in records]),
        bigints([job.offset for job in records]),
        texts([job.idempotency_key for job in records]),
        blobs([None if job.idempotency_key is None else digest_of(job.payload) for job in records]),
        texts([job.domain for job in records]),
        texts([job.name for job in records]),
        blobs([pack_meta(job.meta) if job.meta else None for job in records]),
        texts([job.webhook for job in records]),
        texts([job.signature for job in records]),
        texts([job.last_error or None for job in records]),
    ]


def digest_of(payload: bytes) -> bytes:
    """Enough to tell one payload from another, long after its row is gone."""
    return hashlib.blake2b(payload, digest_size=DIGEST_SIZE).digest()


def are_plain_acks(settlements: Sequence[Settlement]) -> bool:
    """Whether every one is an ack without writes, each of another job: then ``ack_2`` takes them all at once."""
    return (
        set(map(type, settlements)) == {Ack}
        and not any(map(attrgetter("writes"), settlements))
        and len({one.lease.job_id for one in settlements}) == len(settlements)
    )


def acks(settlements: Sequence[Settlement]) -> Columns:
    """The columns of ``ack_2``."""
    return [
        names(all_storable([one.lease.job_id for one in settlements])),
        names(all_storable([one.lease.token for one in settlements])),
        bigints([one.started_at for one in settlements]),
        blobs([one.result if isinstance(one, Ack) else None for one in settlements]),
        texts([one.detail or None for one in settlements]),
    ]


def endings(settlements: Sequence[Settlement]) -> Columns:
    """The columns of ``settle_1``."""
    runs: list[int] = []
    named: set[str] = set()
    alone = True
    for item, one in enumerate(settlements, 1):
        writes = isinstance(one, Ack) and bool(one.writes)
        if alone or writes or one.lease.job_id in named:
            runs.append(item)
            named = set()
        named.add(one.lease.job_id)
        alone = writes
    writes_of = [
        (item, write) for item, one in enumerate(settlements, 1) if isinstance(one, Ack) for write in one.writes
    ]
    return [
        integers(runs),
        names(all_storable([one.lease.job_id for one in settlements])),
        names(all_storable([one.lease.token for one in settlements])),
        names([one.verb for one in settlements]),
        bigints([one.started_at for one in settlements]),
        texts([one.detail or None for one in settlements]),
        blobs([one.result if isinstance(one, Ack) else None for one in settlements]),
        bigints([one.delay or None if isinstance(one, Retry | Release) else None for one in settlements]),
        bigints([one.run_at if isinstance(one, Retry) else None for one in settlements]),
        texts([one.error or None if isinstance(one, Retry | Fail) else None for one in settlements]),
        booleans([isinstance(one, Retry) and one.crashed for one in settlements]),
        texts([one.reason if isinstance(one, Fail) else None for one in settlements]),
        bigints([one.budget if isinstance(one, Release) else None for one in settlements]),
        integers([item for item, _ in writes_of]),
        texts([write.kind for _, write in writes_of]),
        texts([write.key for _, write in writes_of]),
        blobs([write.value for _, write in writes_of]),
        bigints([write.version for _, write in writes_of]),
        bigints([write.ttl for _, write in writes_of]),
    ]


def all_storable(texts: list[str]) -> list[str]:
    """See ``storable``; nearly always all of them are, and one look is enough."""
    together = "".join(texts)
    return texts if together.isascii() and "\0" not in together else [storable(text) for text in texts]


def storable(text: str) -> str:
    """An id or a token as PostgreSQL can be asked for it: one with NUL or half a character was never given out."""
    return text if text.isascii() and "\0" not in text else "?"
