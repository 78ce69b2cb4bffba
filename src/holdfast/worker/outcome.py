"""How one attempt went, as a value. What becomes of the job is decided from it elsewhere, by a pure function.

Lengths are integer microseconds, and errors are texts: an outcome may come from another process.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

from holdfast.clock import DAY
from holdfast.model import bounds
from holdfast.model.fast_construction import mutable_twin
from holdfast.model.registry import Change

MAX_MESSAGE = 1 << 10  # characters of an exception's own text
MAX_FRAMES = 10  # from the end of a traceback: where it happened
MAX_LINKED = 8  # exceptions in one text: causes, and members of groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The handler returned. ``writes`` are committed with the ack, ``detail`` is a word for the ledger."""

    result: bytes | None = None
    writes: tuple[Change, ...] = ()
    detail: str = ""

    def __post_init__(self) -> None:
        """Refuse a result that no store would keep, here, where the attempt can still end otherwise."""
        if self.result is not None:
            bounds.check_blob("result", self.result, most=bounds.MAX_STORED_PAYLOAD_BYTES)


_SucceededDraft = mutable_twin(Succeeded)


def succeeded(result: bytes) -> Succeeded:
    """The same for a result and nothing else, made in a quarter of the time."""
    if len(result) > bounds.MAX_STORED_PAYLOAD_BYTES:
        return Succeeded(result=result)  # refused
    made = _SucceededDraft()
    made.result = result
    made.writes = ()
    made.detail = ""
    made.__class__ = Succeeded
    return cast("Succeeded", made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The handler raised. ``kind`` is the class of what it raised."""

    error: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecovered:
    """The handler, or a step before it, said that this job can never succeed."""

    reason: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAsked:
    """The handler wants another attempt: ``after`` so long, or when the policy says."""

    after: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """Put off without a counted attempt: by the handler, or because something that it needs is held by another."""

    delay: int
    budget: int = DAY
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """It was asked to stop, and did."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The worker gave it back: it shuts down, or could not start it soon enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """It was stopped at its timeout."""

    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfCpu:
    """It was stopped when it had used the processor time of one attempt."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The process that ran it died of it; ``how`` says by which signal or with which exit code."""

    how: str

    @classmethod
    def from_exit(cls, code: int) -> Crashed:
        """From an exit code as ``subprocess`` and ``multiprocessing`` give it: below zero, it is a signal."""
        if code >= 0:
            return cls(how=f"exit code {code}")
        try:
            return cls(how=f"killed by {signal.Signals(-code).name}")
        except ValueError:  # a real-time signal has no name
            return cls(how=f"killed by signal {-code}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPayload:
    """The payload cannot be read, or is not what the handler takes."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownType:
    """There is no handler for it in this worker; a newer one may have it."""


Outcome: TypeAlias = (
    Succeeded
    | Failed
    | Unrecovered
    | RetryAsked
    | Snoozed
    | Cancelled
    | Interrupted
    | TimedOut
    | OutOfCpu
    | Crashed
    | BadPayload
    | UnknownType
)


# Error texts ------------------------------------------------------------------------------------------------


def error_text(error: BaseException) -> str:
    """The class and the message first, then the end of the traceback; then the same for what it came from.

    Every part is bounded, so that a message of megabytes or a recursion without end still says what and where.
    """
    parts = (f"{relation}{_message(one)}\n{_frames(one)}".rstrip() for relation, one in _linked(error))
    return bounds.truncate_text("\n".join(parts))


def _linked(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """The exception, what it was raised from, and the members of groups, each once."""
    waiting, seen = [("", error)], set[int]()
    while waiting and len(seen) < MAX_LINKED:
        relation, one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield relation, one
        if isinstance(one, BaseExceptionGroup):
            waiting += [("with ", member) for member in one.exceptions[:MAX_LINKED]]
        cause = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if cause is not None:
            waiting.append(("from " if one.__cause__ else "while handling ", cause))


def _message(error: BaseException) -> str:
    """Written by ``traceback``, because an exception may fail even to say what it is."""
    return bounds.truncate_text("".join(traceback.format_exception_only(error)).strip(), MAX_MESSAGE)


def _frames(error: BaseException) -> str:
    return "".join(traceback.format_tb(error.__traceback__, limit=-MAX_FRAMES))
