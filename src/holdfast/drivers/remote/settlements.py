"""The refusals of ``settle`` and ``extend`` as tagged messages: the tag says which of them a message is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

import msgspec

from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch, WriteRefused
from holdfast.model.lease import Lease


class _Message(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    pass


class NotInflightMessage(_Message, tag="not_inflight"):
    """A ``JobNotInflight``."""

    job_id: str
    state: str | None


class MismatchMessage(_Message, tag="mismatch"):
    """A ``LeaseMismatch``."""

    job_id: str


class ExpiredMessage(_Message, tag="expired"):
    """A ``LeaseExpired``."""

    job_id: str
    expires_at: int
    now: int


class WriteRefusedMessage(_Message, tag="write_refused"):
    """A ``WriteRefused``."""

    job_id: str
    kind: str
    key: str


class ExtendedMessage(_Message, tag="extended"):
    """The lease that ``extend`` returns."""

    lease: Lease


RefusalMessage: TypeAlias = NotInflightMessage | MismatchMessage | ExpiredMessage | WriteRefusedMessage
ExtendAnswer: TypeAlias = ExtendedMessage | RefusalMessage


def pack_refusals(answers: Iterable[LeaseError | None]) -> list[RefusalMessage | None]:
    """Return the answers of ``settle`` as messages."""
    return [None if answer is None else _pack_refusal(answer) for answer in answers]


def read_refusals(messages: Iterable[RefusalMessage | None]) -> list[LeaseError | None]:
    """Return the answers of ``settle``."""
    return [None if message is None else _read_refusal(message) for message in messages]


def pack_extended(answers: Iterable[Lease | LeaseError]) -> list[ExtendAnswer]:
    """Return the answers of ``extend`` as messages."""
    return [ExtendedMessage(one) if isinstance(one, Lease) else _pack_refusal(one) for one in answers]


def read_extended(messages: Iterable[ExtendAnswer]) -> list[Lease | LeaseError]:
    """Return the answers of ``extend``."""
    return [one.lease if isinstance(one, ExtendedMessage) else _read_refusal(one) for one in messages]


def _pack_refusal(error: LeaseError) -> RefusalMessage:
    match error:
        case JobNotInflight(job_id=job_id, state=state):
            return NotInflightMessage(job_id, state)
        case LeaseMismatch(job_id=job_id):
            return MismatchMessage(job_id)
        case LeaseExpired(job_id=job_id, expires_at=expires_at, now=now):
            return ExpiredMessage(job_id, expires_at, now)
        case WriteRefused(job_id=job_id, kind=kind, key=key):
            return WriteRefusedMessage(job_id, kind, key)
        case _:
            raise TypeError(f"wanted one of the four refusals of the contract, got {type(error).__name__}")


def _read_refusal(message: RefusalMessage) -> LeaseError:
    match message:
        case NotInflightMessage(job_id=job_id, state=state):
            return JobNotInflight(job_id, state)
        case MismatchMessage(job_id=job_id):
            return LeaseMismatch(job_id)
        case ExpiredMessage(job_id=job_id, expires_at=expires_at, now=now):
            return LeaseExpired(job_id, expires_at=expires_at, now=now)
        case WriteRefusedMessage(job_id=job_id, kind=kind, key=key):
            return WriteRefused(job_id, kind=kind, key=key)
        case _:
            assert_never(message)
