"""The registry entry that keeps an ``ExecutionResult``. Its key is the id of the job."""

from __future__ import annotations

import msgspec

from holdfast.clock import SECOND, to_datetime, to_timedelta
from holdfast.model.execution import ExecutionResult
from holdfast.model.registry import Entry

EXECUTION_KIND = "job.execution"


class ExecutionEntry(msgspec.Struct, kw_only=True, frozen=True):
    """The value of the entry, as MessagePack: escaping would make some outputs too long. Instants are microseconds."""

    success: bool
    handler: str
    attempt: int
    ended: int
    seconds: float
    output: str = ""
    error: str = ""
    truncated: bool = False

    def encode(self) -> bytes:
        """Return the entry as the store keeps it."""
        return msgspec.msgpack.encode(self)


def read_execution(entry: Entry | None) -> ExecutionResult | None:
    """Return the execution that an entry keeps; None if there is no entry."""
    if entry is None:
        return None
    value = msgspec.msgpack.decode(entry.value or b"", type=ExecutionEntry)
    micros = round(value.seconds * SECOND)
    return ExecutionResult(
        success=value.success,
        output=value.output,
        error=value.error,
        started=to_datetime(value.ended - micros),
        ended=to_datetime(value.ended),
        duration=to_timedelta(micros),
        handler=value.handler,
        attempt=value.attempt,
        truncated=value.truncated,
    )
