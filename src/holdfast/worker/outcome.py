"""The outcome of one attempt, as a value. ``decide`` turns it into a settlement.

Durations are integer microseconds and errors are texts: an outcome may come from another process.
"""

from __future__ import annotations

import signal
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from holdfast.clock import DAY
from holdfast.model import bounds
from holdfast.model.registry import Change
from holdfast.worker.shortage import shortage_of

MAX_MESSAGE_CHARACTERS = 1 << 10  # of the message of one exception
MAX_NAME_CHARACTERS = 1 << 8  # of the name of a class
MAX_FRAMES = 10  # from the end of a traceback, where the exception was raised
CALLING_MODULES = ("holdfast.", "asyncio.", "concurrent.futures.")  # they call handlers, also asynchronous ones
MAX_EXCEPTIONS = 8  # in one text: causes, and members of groups
NOT_STARTED = "not started"  # the reason of an ``Interrupted`` job that was sent to no child, or came back from one
TYPE_HELD = "not started: its type is held"  # by a breaker that opened, or by a handler
KILLED_FOR_ANOTHER = "its process was killed because of another attempt"


class Succeeded(msgspec.Struct, frozen=True, kw_only=True):
    """The handler returned. ``writes`` are committed with the ack, ``detail`` goes to the ledger.

    If the result could not be stored there is none, and ``detail`` says why.
    """

    result: bytes | None = None
    writes: tuple[Change, ...] = ()
    detail: str = ""

    def __post_init__(self) -> None:
        """Raise ``PayloadError`` for a result that is too large, while the attempt can still end in another way."""
        if self.result is not None:
            bounds.check_blob("result", self.result, most=bounds.MAX_STORED_PAYLOAD_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The handler was not called, because the work of the job was finished before."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The handler raised. ``kind`` is the class of the exception.

    ``shortage`` says what the process had run out of, if that is why.
    """

    error: str
    kind: str = ""
    shortage: str = ""

    @classmethod
    def by(cls, error: BaseException) -> Failed:
        """Return the outcome of an attempt that raised this exception."""
        shortage = shortage_of(one for _, one in _related(error))
        return cls(error=error_text(error), kind=class_name(error), shortage=shortage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecovered:
    """The handler, or a step before it, found that the job can never succeed."""

    reason: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested:
    """The handler requested another attempt ``after`` this time; None uses the delay of the retry policy.

    With ``pause_type`` the whole type waits for this time, with ``pause_key`` all jobs with the same limit key.
    """

    after: int | None = None
    error: str = ""
    pause_type: bool = False
    pause_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """Run the job later, without a counted attempt."""

    delay: int
    budget: int = DAY
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The attempt was interrupted because a cancel was requested."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The worker releases the job: it shuts down, no child could start the job soon enough, or its lease is lost."""

    reason: str = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The attempt was stopped at its timeout."""

    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfCpu:
    """The attempt was stopped when it had used up its processor time."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The child process exited during the attempt; ``how`` names the signal or the exit code."""

    how: str

    @classmethod
    def from_exit(cls, code: int) -> Crashed:
        """Return the outcome for an exit code as in ``subprocess``."""
        return cls(how=exit_text(code))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPayload:
    """The payload cannot be read, or does not have the type that the handler takes."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadSignature:
    """The job is not the one that was signed, or it has no signature although one is required."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownType:
    """This worker has no handler for the type; a newer worker may have one."""


Outcome: TypeAlias = (
    Succeeded
    | Skipped
    | Failed
    | Unrecovered
    | RetryRequested
    | Snoozed
    | Cancelled
    | Interrupted
    | TimedOut
    | OutOfCpu
    | Crashed
    | BadPayload
    | BadSignature
    | UnknownType
)


def exit_text(code: int) -> str:
    """Return what an exit code as in ``subprocess`` says: a negative number is a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"


# Error texts ------------------------------------------------------------------------------------------------


def error_text(error: BaseException) -> str:
    """Return the class, the message and the end of the traceback; then the same for its causes.

    Every part is bounded, so that a message of megabytes or an endless recursion still shows what failed and where.
    """
    try:
        parts = (f"{relation}{_message(one)}\n{_frames(one)}".rstrip() for relation, one in _related(error))
        return bounds.truncate_text("\n".join(parts))
    except Exception as failure:  # noqa: BLE001 - a SyntaxError with made-up attributes, for example, has no text
        return f"{class_name(error)} (its text could not be made: {class_name(failure)})"


def plain_text(value: object, most: int = bounds.MAX_ERROR_CHARACTERS) -> str:
    """Return any value as a text that every store can hold, at most ``most`` characters. Never raises.

    A handler may give an exception or a number as its reason, and the ``__str__`` of a value may raise. None is empty.
    """
    if value is None:
        return ""
    try:
        text = _message(value) if isinstance(value, BaseException) else str(value)
        return bounds.truncate_text(str.__str__(text), most)  # a subclass of str may do anything
    except Exception as failure:  # noqa: BLE001 - it is code of the user
        return f"{class_name(value)} (its text could not be made: {class_name(failure)})"


def class_name(value: object) -> str:
    """Return the name of the class of a value, short enough for every store."""
    return bounds.truncate_text(type(value).__name__, MAX_NAME_CHARACTERS)


def _related(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Yield the exception, its causes, and the members of groups, each once."""
    waiting, seen = [("", error)], set[int]()
    while waiting and len(seen) < MAX_EXCEPTIONS:
        relation, one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield relation, one
        if isinstance(one, BaseExceptionGroup):
            waiting += [("with ", member) for member in one.exceptions[:MAX_EXCEPTIONS]]
        cause = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if cause is not None:
            waiting.append(("from " if one.__cause__ else "while handling ", cause))


def _message(error: BaseException) -> str:
    """Return class and message. ``traceback`` formats it, because the ``__str__`` of an exception may raise."""
    return bounds.truncate_text("".join(traceback.format_exception_only(error)).strip(), MAX_MESSAGE_CHARACTERS)


def _frames(error: BaseException) -> str:
    return "".join(traceback.format_tb(_first_user_frame(error.__traceback__), limit=-MAX_FRAMES))


def _first_user_frame(frames: types.TracebackType | None) -> types.TracebackType | None:
    """Return the traceback without the frames that call the handler; the whole traceback if it has no other frame."""
    first = frames
    while first is not None and str(first.tb_frame.f_globals.get("__name__")).startswith(CALLING_MODULES):
        first = first.tb_next
    return first or frames
