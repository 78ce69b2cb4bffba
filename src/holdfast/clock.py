"""The only module that reads the time.

Instants are integer microseconds since the Unix epoch (law L2): they compare exactly, in every store and language.
"""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """What a driver asks for the time."""

    def now(self) -> int:
        """The present instant in microseconds; never smaller than one it gave before."""
        ...


class SystemClock:
    """The host's wall clock, held still while the host's time steps back (law L1)."""

    def __init__(self) -> None:
        self._latest = 0
        self._lock = threading.Lock()

    def now(self) -> int:
        """The wall clock, or the latest instant given so far if the wall clock is behind it."""
        with self._lock:
            self._latest = max(self._latest, time.time_ns() // 1000)
            return self._latest


def wall_clock() -> int:
    """The host's wall clock as it is, for a note of when something was: nothing is decided by it."""
    return time.time_ns() // 1000


class ManualClock:
    """A clock that moves only when told to: for tests and simulations."""

    def __init__(self, start: int = 1_800_000_000 * SECOND) -> None:
        self._now = start

    def now(self) -> int:
        """The instant the clock was last moved to."""
        return self._now

    def advance(self, length: int | timedelta) -> int:
        """Move forward by microseconds or a timedelta; gives the new instant."""
        self._now += length if isinstance(length, int) else from_timedelta(length)
        return self._now


def from_datetime(instant: datetime) -> int:
    """Microseconds since the epoch; exact, because it never goes through a float."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: int) -> datetime:
    """The aware UTC datetime of an instant."""
    return _EPOCH + timedelta(microseconds=instant)


def from_timedelta(length: timedelta) -> int:
    """A length in microseconds, exact."""
    return length // timedelta(microseconds=1)


def to_timedelta(length: int) -> timedelta:
    """The timedelta of a length in microseconds."""
    return timedelta(microseconds=length)


def monotonic() -> float:
    """Seconds for local deadlines: unrelated to any instant, and never adjusted."""
    return time.monotonic()


_SCHED = 2  # which of the three processor clocks of a process Linux is asked for: the exact one


def processor_time(pid: int) -> float:
    """Seconds that a process, with all its threads, has kept processors busy; 0 if it is gone.

    The clock of another process has the number that ``clock_getcpuclockid`` would give, which Python does not have.
    """
    if sys.platform != "linux":
        raise NotImplementedError("the processor time of another process can be read on Linux only")
    try:
        return time.clock_gettime((~pid << 3) | _SCHED)
    except OSError:
        return 0.0
