"""Messages between the worker and its child processes: lists in MessagePack, each list behind its length; never pickle.

A message list is encoded and decoded by one call. With very short jobs that is where the time goes, so most messages
travel in lists of hundreds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from holdfast.wire.job_message import JobMessage, PayloadMessage
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

_SUCCEEDED_WITHOUT_RESULT = Succeeded()

# From the worker to a child ---------------------------------------------------------------------------------


class RunJob(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Run this job. ``run`` is the number of the run in all messages about it."""

    run: int
    job: JobMessage | PayloadMessage
    lease_deadline: float = math.inf  # by ``boot_time``: the run is returned if it has not begun by then


class Stop(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Finish the running jobs, return the queued ones, and exit."""


class ReturnQueued(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """Return the runs that have not begun: the running one takes long, and another child may be idle.

    Sent on the interrupt socket, beside a signal.
    """


class InterruptRun(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """Interrupt this run, if it is still running. Sent on the interrupt socket, beside a signal."""

    run: int
    reason: str


# From a child to the worker ---------------------------------------------------------------------------------


class RunStarted(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """The handler of this run starts now."""

    run: int
    at: int  # the child's wall clock


class RunNote(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """Progress or a checkpoint, for the next heartbeat."""

    run: int
    progress: bytes | None = None
    checkpoint: bytes | None = None


class RunSucceeded(msgspec.Struct, array_like=True, tag=7):
    """This run succeeded: the most frequent ending, and the smallest message."""

    run: int
    result: bytes | None = None
    seconds: float = 0.0


class RunEnded(msgspec.Struct, array_like=True, tag=8):
    """This run ended in another way. ``kind`` names the outcome that the worker makes of it."""

    run: int
    kind: str
    error: str = ""
    reason: str = ""
    after: int | None = None
    budget: int = 0
    seconds: float = 0.0


class RunReturned(msgspec.Struct, array_like=True, tag=9, frozen=True):
    """This run was not started, and never will be in this child."""

    run: int


Message: TypeAlias = (
    RunJob | Stop | ReturnQueued | InterruptRun | RunStarted | RunNote | RunSucceeded | RunEnded | RunReturned
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Message]).decode
_LENGTH_BYTES = 4  # in front of each list
READ_BYTES = 1 << 16  # that are read from a socket or a pipe at a time


def pack(messages: Sequence[Message]) -> bytes:
    """Return a list of messages as bytes."""
    data = _encode(messages)
    return len(data).to_bytes(_LENGTH_BYTES) + data


class Unpacker:
    """Collects bytes as they arrive, and decodes the lists that are complete."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        """Add bytes, and return every message that is complete now."""
        data = self._rest + data
        messages: list[Message] = []
        at = 0
        while (start := at + _LENGTH_BYTES) <= len(data) and (end := start + int.from_bytes(data[at:start])) <= len(
            data
        ):
            messages += _decode(data[start:end])
            at = end
        self._rest = data[at:]
        return messages


INTERRUPTED = "interrupted"  # the kind of a run that was stopped; its reason says why


def end_message(run: int, outcome: Outcome) -> RunSucceeded | RunEnded:
    """Return the message for an outcome that a handler can bring about."""
    match outcome:
        case Succeeded():
            return RunSucceeded(run, outcome.result)
        case Failed():
            return RunEnded(run, kind="failed", error=outcome.error, reason=outcome.kind)
        case Unrecovered():
            return RunEnded(run, kind="unrecoverable", error=outcome.error, reason=outcome.reason)
        case RetryAsked():
            return RunEnded(run, kind="retry", error=outcome.error, after=outcome.after)
        case Snoozed():
            return RunEnded(run, kind="snooze", after=outcome.delay, budget=outcome.budget, reason=outcome.reason)
        case BadPayload():
            return RunEnded(run, kind="bad payload", error=outcome.error)
        case UnknownType():
            return RunEnded(run, kind="unknown type")
        case _:
            raise AssertionError(f"wanted the outcome of a handler, got {outcome!r}")


def read_outcome(message: RunSucceeded | RunEnded) -> Outcome:
    """Return the outcome in a message that is not of kind ``INTERRUPTED``."""
    if isinstance(message, RunSucceeded):
        return _SUCCEEDED_WITHOUT_RESULT if message.result is None else succeeded(message.result)
    match message.kind:
        case "unrecoverable":
            return Unrecovered(reason=message.reason, error=message.error)
        case "retry":
            return RetryAsked(after=message.after, error=message.error)
        case "snooze":
            return Snoozed(delay=message.after or 0, budget=message.budget, reason=message.reason)
        case "bad payload":
            return BadPayload(error=message.error)
        case "unknown type":
            return UnknownType()
        case _:
            return Failed(error=message.error, kind=message.reason)
