"""Leases: who owns a job, by which token, and until when."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.clock import SECOND
from holdfast.model import bounds
from holdfast.model.job import JobRecord

TOKEN_RANDOM_BYTES = 16
MIN_LEASE = SECOND // 10  # microseconds, of a worker
DEFAULT_LEASE = 15 * SECOND


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The ownership of one job: ``token`` proves it, ``fence`` numbers it, ``expires_at`` ends it."""

    job_id: str
    token: str  # a secret, not for logs: every process that knows it can settle the job
    fence: int
    expires_at: int
    cancel_requested: bool = False

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return what ``repr`` and rich show: every field but the token."""
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name != "token"]

    def __repr__(self) -> str:
        return f"Lease({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Reservation(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A job and the lease under which the caller owns it, with the checkpoint of an earlier attempt.

    An ``isolated`` job runs alone: see ``model.isolation``.
    """

    job: JobRecord
    lease: Lease
    checkpoint: bytes | None = None
    isolated: bool = False


def make_reservation(
    job: JobRecord,
    token: str,
    fence: int,
    expires_at: int,
    checkpoint: bytes | None = None,
    *,
    isolated: bool = False,
) -> Reservation:
    """Return a job in flight with a new lease."""
    lease = Lease(job_id=job.id, token=token, fence=fence, expires_at=expires_at)
    return Reservation(job=job, lease=lease, checkpoint=checkpoint, isolated=isolated)


class Enqueued(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer for one enqueued record: ``existed`` if no new job was stored, ``conflict`` if the payloads differ.

    ``past`` says that the offset of the record has ended in its domain: its job is done, dead or cancelled, or was
    removed since. If it was removed, ``id`` is that of the record, and no job has it.
    """

    id: str
    existed: bool
    conflict: bool = False
    past: bool = False


def newly_enqueued(job_ids: Iterable[str]) -> list[Enqueued]:
    """Return the answers for a batch in which every record is a new job."""
    return [Enqueued(id=job_id, existed=False) for job_id in job_ids]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a running attempt reports with its heartbeat; a field of None leaves the stored value unchanged."""

    started_at: int | None = None
    progress: bytes | None = None
    checkpoint: bytes | None = None

    def __post_init__(self) -> None:
        """Refuse values that are too large to be written with every heartbeat."""
        bounds.check_optional_integer("started_at", self.started_at, least=1, most=bounds.MAX_INSTANT)
        if self.progress is not None:
            bounds.check_blob("progress", self.progress, most=bounds.MAX_NOTE_BYTES)
        if self.checkpoint is not None:
            bounds.check_blob("checkpoint", self.checkpoint, most=bounds.MAX_NOTE_BYTES)


def is_expired(expires_at: int, now: int) -> bool:
    """Whether an instant has passed: the one rule for leases and for everything else that expires (L2)."""
    return now >= expires_at


def token_bytes(count: int) -> bytes:
    """Return the random bytes for ``count`` tokens, from one call to the random source of the system."""
    return secrets.token_bytes(TOKEN_RANDOM_BYTES * count)


def make_tokens(fences: Sequence[int], random_bytes: bytes) -> list[str]:
    """Return one token per fence, ``"<fence>.<128 random bits>"`` (L4)."""
    text, width = random_bytes.hex(), TOKEN_RANDOM_BYTES * 2
    return [f"{fence}.{text[place * width : (place + 1) * width]}" for place, fence in enumerate(fences)]
