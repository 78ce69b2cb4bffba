"""What parent and child say to each other: lists of frames in MessagePack, each behind its length; never pickle.

Lists, because many frames are written and read by one call: with very short jobs that is where the time goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from holdfast.wire.records import Brief, Gist
from holdfast.worker.outcome import (
    BadPayload,
    Failed,
    Outcome,
    RetryAsked,
    Snoozed,
    Succeeded,
    UnknownType,
    Unrecovered,
    succeeded,
)

_PLAIN = Succeeded()  # most end like this


class Work(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """Run this job; ``run`` numbers the attempt between these two."""

    run: int
    job: Brief | Gist


class Stop(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """Finish what is running, give back the rest, and go."""


class Began(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """The handler of this run starts now."""

    run: int
    at: int


class Noted(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """Something for the next heartbeat."""

    run: int
    progress: bytes | None = None
    checkpoint: bytes | None = None


class Done(msgspec.Struct, array_like=True, tag=True):
    """A run succeeded, as most do."""

    run: int
    result: bytes | None = None
    took: float = 0.0  # seconds


class Ended(msgspec.Struct, array_like=True, tag=True):
    """How a run ended otherwise; the parent makes an outcome of it."""

    run: int
    kind: str
    error: str = ""
    reason: str = ""
    after: int | None = None
    budget: int = 0
    took: float = 0.0  # seconds


class GivenBack(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """This run was never started."""

    run: int


class Recall(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """Give back what has not begun: what runs takes long, and another child may be idle. Sent like an interrupt."""


class Interrupt(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """Stop this run, if it is still the one: sent beside a signal, on a socket of its own."""

    run: int
    why: str


Frame: TypeAlias = Work | Stop | Began | Noted | Done | Ended | GivenBack | Recall | Interrupt

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Frame]).decode
_LENGTH = 4  # bytes, in front of each list


def packed(frames: Sequence[Frame]) -> bytes:
    """A list of frames as bytes."""
    data = _encode(frames)
    return len(data).to_bytes(_LENGTH) + data


class Buffer:
    """Bytes as they come in, frames as they become whole."""

    def __init__(self) -> None:
        self._left = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Every frame that is complete now."""
        data = self._left + data
        frames: list[Frame] = []
        at = 0
        while (start := at + _LENGTH) <= len(data) and (end := start + int.from_bytes(data[at:start])) <= len(data):
            frames += _decode(data[start:end])
            at = end
        self._left = data[at:]
        return frames


def ended(run: int, outcome: Outcome) -> Done | Ended:
    """An outcome as it travels; ``outcome`` is one that a handler can bring about."""
    match outcome:
        case Succeeded():
            return Done(run, outcome.result)
        case Failed():
            return Ended(run, kind="failed", error=outcome.error, reason=outcome.kind)
        case Unrecovered():
            return Ended(run, kind="unrecoverable", error=outcome.error, reason=outcome.reason)
        case RetryAsked():
            return Ended(run, kind="retry", error=outcome.error, after=outcome.after)
        case Snoozed():
            return Ended(run, kind="snooze", after=outcome.delay, budget=outcome.budget, reason=outcome.reason)
        case BadPayload():
            return Ended(run, kind="bad payload", error=outcome.error)
        case UnknownType():
            return Ended(run, kind="unknown type")
        case _:
            raise AssertionError(f"no handler ends like this: {outcome!r}")


def outcome_of(frame: Done | Ended) -> Outcome:
    """The outcome again, in the parent."""
    if isinstance(frame, Done):
        return _PLAIN if frame.result is None else succeeded(frame.result)
    match frame.kind:
        case "unrecoverable":
            return Unrecovered(reason=frame.reason, error=frame.error)
        case "retry":
            return RetryAsked(after=frame.after, error=frame.error)
        case "snooze":
            return Snoozed(delay=frame.after or 0, budget=frame.budget, reason=frame.reason)
        case "bad payload":
            return BadPayload(error=frame.error)
        case "unknown type":
            return UnknownType()
        case _:
            return Failed(error=frame.error, kind=frame.reason)
