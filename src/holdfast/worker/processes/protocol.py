"""Messages between the worker and its child processes: lists in MessagePack, each list in one frame; never pickle.

A message list is encoded and decoded by one call. With very short jobs most of the time is spent there, so most
messages are sent in lists of hundreds.

A handler can write to the pipe of its child, so the worker trusts nothing that it reads there. A frame begins with a
constant: bytes that do not belong into the pipe are noticed at the next frame, and not taken for the length of a frame
that never ends. Numbers and lengths that would fail later, in a store, are refused by the decoder.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from holdfast.clock import SECOND
from holdfast.model import bounds
from holdfast.model.execution import MAX_OUTPUT_BYTES
from holdfast.wire.job_message import JobMessage, PayloadMessage
from holdfast.worker.outcome import (
    BadPayload,
    Failed,
    Outcome,
    RetryRequested,
    Snoozed,
    Succeeded,
    UnknownType,
    Unrecovered,
)

_SUCCEEDED_WITHOUT_RESULT = Succeeded()


class ProtocolError(Exception):
    """The other process sent bytes or a message that it must not send."""


Instant: TypeAlias = Annotated[int, Meta(ge=0, le=bounds.MAX_INSTANT)]
Duration: TypeAlias = Annotated[int, Meta(ge=0, le=bounds.MAX_DURATION)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=bounds.MAX_DURATION / SECOND)]
NoteBytes: TypeAlias = Annotated[bytes, Meta(max_length=bounds.MAX_NOTE_BYTES)]
ResultBytes: TypeAlias = Annotated[bytes, Meta(max_length=bounds.MAX_STORED_PAYLOAD_BYTES)]

# From the worker to a child ---------------------------------------------------------------------------------


class RunJob(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Run this job, if its ticket is there. ``run`` is the number of the ticket, and of the run in all messages."""

    run: int
    job: JobMessage | PayloadMessage
    lease_deadline: float = math.inf  # by ``boot_time``, when this was sent; ``SharedDeadline`` has a later one


class Stop(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Finish the running jobs, return the queued ones, and exit."""


class InterruptRun(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """Interrupt this run, if it is still running. Sent on the interrupt socket, beside a signal."""

    run: int
    reason: str


# From a child to the worker ---------------------------------------------------------------------------------


class RunStarted(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """The handler of this run starts now."""

    run: int
    at: Instant  # the child's wall clock


class RunNote(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """Progress or a checkpoint, for the next heartbeat."""

    run: int
    progress: NoteBytes | None = None
    checkpoint: NoteBytes | None = None


class RunSucceeded(msgspec.Struct, array_like=True, tag=7):
    """This run succeeded: the most frequent ending, and the smallest message."""

    run: int
    result: ResultBytes | None = None
    seconds: Seconds = 0.0


class RunEnded(msgspec.Struct, array_like=True, tag=8):
    """This run ended in another way. ``kind`` names the outcome."""

    run: int
    kind: str
    error: str = ""
    reason: str = ""
    after: Duration | None = None
    budget: Duration = 0
    seconds: Seconds = 0.0


class RunReturned(msgspec.Struct, array_like=True, tag=9, frozen=True):
    """This run was not started, and never will be in this child: its ticket was withdrawn, or its lease may end."""

    run: int


class ProcessesEnded(msgspec.Struct, array_like=True, tag=10, frozen=True):
    """This run is about to end, and the processes that it left behind were ended."""

    run: int
    processes: Annotated[str, Meta(max_length=bounds.MAX_REASON_CHARACTERS)]


class ChildDamaged(msgspec.Struct, array_like=True, tag=12, frozen=True):
    """This run is about to end, and its process has run out of something: it ends after the runs that it has begun."""

    run: int
    shortage: Annotated[str, Meta(max_length=bounds.MAX_REASON_CHARACTERS)]


class RunOutput(msgspec.Struct, array_like=True, tag=11, frozen=True):
    """What the handler of this run printed; sent when it has ended."""

    run: int
    output: Annotated[str, Meta(max_length=MAX_OUTPUT_BYTES)]
    truncated: bool = False


WorkerMessage: TypeAlias = RunJob | Stop | InterruptRun
ChildMessage: TypeAlias = (
    RunStarted | RunNote | RunSucceeded | RunEnded | RunReturned | ProcessesEnded | ChildDamaged | RunOutput
)
Message: TypeAlias = WorkerMessage | ChildMessage

# Frames -----------------------------------------------------------------------------------------------------

FRAME_START = b"hfm\x01"
MAX_FRAME_BYTES = 256 << 20  # without its header; a longer list of messages is sent in several frames
READ_BYTES = 1 << 16  # that are read from a socket or a pipe at a time
_HEADER = struct.Struct(f">{len(FRAME_START)}sI")  # the constant, and the length of the list

_encode = msgspec.msgpack.Encoder().encode
decode_worker_messages = msgspec.msgpack.Decoder(list[WorkerMessage]).decode
decode_child_messages = msgspec.msgpack.Decoder(list[ChildMessage]).decode

AnyMessage = TypeVar("AnyMessage")  # WorkerMessage or ChildMessage


def pack(messages: Sequence[Message]) -> bytes:
    """Return a list of messages as bytes."""
    data = _encode(messages)
    if len(data) > MAX_FRAME_BYTES and len(messages) > 1:
        half = len(messages) // 2
        return pack(messages[:half]) + pack(messages[half:])
    return _HEADER.pack(FRAME_START, len(data)) + data


class Unpacker(Generic[AnyMessage]):
    """Collects bytes as they arrive, and decodes the frames that are complete.

    The time is linear in the bytes: those of an incomplete frame are collected, and looked at when it is complete.
    """

    def __init__(self, decode: Callable[[memoryview], list[AnyMessage]]) -> None:
        """``decode`` is ``decode_worker_messages`` or ``decode_child_messages``."""
        self._decode = decode
        self._rest = bytearray()  # the beginning of a frame
        self._wanted = 0  # how many bytes ``_rest`` needs before it is looked at again
        self.error: ProtocolError | None = None  # set at the first bad frame; what follows it is not read

    def feed(self, data: bytes) -> list[AnyMessage]:
        """Add bytes, and return every message that is complete now, up to the first bad frame."""
        if self.error is not None:
            return []
        if not self._rest:
            return self._unpack(data)
        self._rest += data
        if len(self._rest) < self._wanted:
            return []
        return self._unpack(self._rest)

    def _unpack(self, data: bytes | bytearray) -> list[AnyMessage]:
        view, at, size = memoryview(data), 0, len(data)
        messages: list[AnyMessage] = []
        while (start := at + _HEADER.size) <= size:
            constant, length = _HEADER.unpack_from(data, at)
            if constant != FRAME_START or length > MAX_FRAME_BYTES:
                self.error = ProtocolError(f"wanted the header of a frame, got {bytes(view[at:start])!r}")
                break
            if start + length > size:
                self._wanted = start + length - at
                break
            try:
                messages += self._decode(view[start : start + length])
            except (ValueError, RecursionError) as error:  # of msgspec: other bytes, another type, too large a value
                self.error = ProtocolError(f"wanted a list of messages, got {error}")
                break
            at = start + length
        else:
            self._wanted = _HEADER.size
            if at < size and not FRAME_START.startswith(bytes(view[at : at + len(FRAME_START)])):
                self.error = ProtocolError(f"wanted the start of a frame, got {bytes(view[at:])!r}")
        self._rest = bytearray(view[at:])  # less than was added by this call
        return messages


# Outcomes ---------------------------------------------------------------------------------------------------

_RETRY_KINDS = {  # (pause_type, pause_key) -> the kind of the message
    (False, False): "retry",
    (True, False): "retry, pause type",
    (False, True): "retry, pause key",
    (True, True): "retry, pause type and key",
}
_PAUSES = {kind: pauses for pauses, kind in _RETRY_KINDS.items()}
INTERRUPTED = "interrupted"  # the kind of a run that was stopped; its reason says why


def end_message(run: int, outcome: Outcome) -> RunSucceeded | RunEnded:
    """Return the message for an outcome of a handler."""
    match outcome:
        case Succeeded():
            if outcome.detail:
                return RunEnded(run, kind="result not stored", reason=outcome.detail)
            return RunSucceeded(run, outcome.result)
        case Failed():
            return RunEnded(run, kind="failed", error=outcome.error, reason=outcome.kind)
        case Unrecovered():
            return RunEnded(run, kind="unrecoverable", error=outcome.error, reason=outcome.reason)
        case RetryRequested():
            kind = _RETRY_KINDS[outcome.pause_type, outcome.pause_key]
            return RunEnded(run, kind=kind, error=outcome.error, after=outcome.after)
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
        return _SUCCEEDED_WITHOUT_RESULT if message.result is None else Succeeded(result=message.result)
    match message.kind:
        case "result not stored":
            return Succeeded(detail=message.reason)
        case "unrecoverable":
            return Unrecovered(reason=message.reason, error=message.error)
        case kind if kind in _PAUSES:
            pause_type, pause_key = _PAUSES[kind]
            return RetryRequested(after=message.after, error=message.error, pause_type=pause_type, pause_key=pause_key)
        case "snooze":
            return Snoozed(delay=message.after or 0, budget=message.budget, reason=message.reason)
        case "bad payload":
            return BadPayload(error=message.error)
        case "unknown type":
            return UnknownType()
        case _:
            return Failed(error=message.error, kind=message.reason)
