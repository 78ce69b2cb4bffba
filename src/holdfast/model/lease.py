"""Leases: who owns a job, by which proof, until when."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from holdfast.model import bounds
from holdfast.model.fast_construction import mutable_twin
from holdfast.model.job import JobRecord

RANDOM_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The ownership of one job: ``token`` proves it, ``fence`` numbers it, ``expires_at`` ends it."""

    job_id: str
    token: str = field(repr=False)  # who has it can settle the job: not for logs
    fence: int
    expires_at: int
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A job and the lease under which the caller owns it, with the checkpoint an earlier attempt left."""

    job: JobRecord
    lease: Lease
    checkpoint: bytes | None = None


_LeaseDraft = mutable_twin(Lease)
_ReservationDraft = mutable_twin(Reservation)


def make_reservation(
    job: JobRecord, token: str, fence: int, expires_at: int, checkpoint: bytes | None = None
) -> Reservation:
    """A job in flight and its new lease, for those who make them by the thousand."""
    lease = _LeaseDraft()
    lease.job_id, lease.token, lease.fence, lease.expires_at = job.id, token, fence, expires_at
    lease.cancel_requested = False
    lease.__class__ = Lease
    made = _ReservationDraft()
    made.job, made.lease, made.checkpoint = job, lease, checkpoint
    made.__class__ = Reservation
    return cast("Reservation", made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The answer to one enqueued record: ``existed`` when it made no new job, ``conflict`` when its payload differs."""

    id: str
    existed: bool
    conflict: bool = False


_EnqueuedDraft = mutable_twin(Enqueued)


def newly_enqueued(job_ids: Iterable[str]) -> list[Enqueued]:
    """The answer to a batch of which every record made a new job."""
    answers = []
    for job_id in job_ids:
        answer = _EnqueuedDraft()
        answer.id = job_id
        answer.existed = answer.conflict = False
        answer.__class__ = Enqueued
        answers.append(answer)
    return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a running attempt leaves with its heartbeat; None leaves a field as it was."""

    started_at: int | None = None
    progress: bytes | None = None
    checkpoint: bytes | None = None

    def __post_init__(self) -> None:
        """Refuse what is too large to be written with every heartbeat."""
        bounds.optional_integer("started_at", self.started_at, least=1, most=bounds.MAX_INSTANT)
        if self.progress is not None:
            bounds.blob("progress", self.progress, most=bounds.MAX_NOTE)
        if self.checkpoint is not None:
            bounds.blob("checkpoint", self.checkpoint, most=bounds.MAX_NOTE)


def is_expired(expires_at: int, now: int) -> bool:
    """The one rule of law L2, for leases and for everything else that expires."""
    return now >= expires_at


def random_bits(count: int) -> bytes:
    """What ``count`` tokens need; one call to the system's random source for all."""
    return secrets.token_bytes(RANDOM_BYTES * count)


def tokens(fences: Sequence[int], bits: bytes) -> list[str]:
    """One token per fence, ``"<fence>.<128 random bits>"`` (law L4)."""
    text, width = bits.hex(), RANDOM_BYTES * 2
    return [f"{fence}.{text[place * width : (place + 1) * width]}" for place, fence in enumerate(fences)]
