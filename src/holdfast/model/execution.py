"""``ExecutionResult``: how the last attempt of a job went, with what its handler printed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_OUTPUT_BYTES = 56 << 10  # of the end of the output; with the error it fits into an entry of the registry
MAX_EXECUTION_ERROR_CHARACTERS = 1 << 10  # the job keeps a longer text


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """The last attempt of a job whose handler has ``capture_output``. ``output`` is its stdout and stderr."""

    success: bool
    output: str
    error: str
    started: datetime
    ended: datetime
    duration: timedelta
    handler: str  # the type of the job
    attempt: int
    truncated: bool = False  # the output was longer: its beginning is left out
