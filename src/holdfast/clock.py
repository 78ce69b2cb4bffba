"""The only module that reads the time.

Instants are integer microseconds since the Unix epoch (law L2): they compare exactly, in every store and language.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from holdfast import linux

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

MAX_CLOCK_HOLD = HOUR  # a clock that steps back by more was wrong before: time follows it instead of standing still

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_DATETIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


class Clock(Protocol):
    """Where a driver reads the time."""

    def now(self) -> int:
        """Return the present instant in microseconds; it does not decrease by ``MAX_CLOCK_HOLD`` or less."""
        ...


class SystemClock:
    """The host's wall clock, which does not step back by an hour or less (law L1)."""

    def __init__(self) -> None:
        self._latest = 0
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return the wall clock's instant, or the latest one returned so far if that is a little later."""
        with self._lock:
            self._latest = hold(time.time_ns() // 1000, self._latest)
            return self._latest


def hold(now: int, latest: int) -> int:
    """Return the instant that decides: ``latest`` while the clock is behind it by ``MAX_CLOCK_HOLD`` or less.

    While time stands still no lease expires and no retry becomes due. That is right for a correction of the clock, and
    wrong for a clock that had been a year ahead.
    """
    return latest if 0 < latest - now <= MAX_CLOCK_HOLD else now


def wall_clock() -> int:
    """Return the host's wall clock, for timestamps that are only shown: no decision depends on it."""
    return time.time_ns() // 1000


class ManualClock:
    """A clock that moves only by ``advance``: for tests and simulations."""

    def __init__(self, start: int = 1_800_000_000 * SECOND) -> None:
        self._now = start

    def now(self) -> int:
        """Return the instant that the clock was last moved to."""
        return self._now

    def advance(self, duration: int | timedelta) -> int:
        """Move forward by microseconds or a timedelta; return the new instant."""
        self._now += duration if isinstance(duration, int) else from_timedelta(duration)
        return self._now


def from_datetime(instant: datetime) -> int:
    """Convert to microseconds since the epoch, exactly: no float is involved."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: int) -> datetime:
    """Convert an instant to an aware UTC datetime; to the last one there is if the instant is later."""
    return _EPOCH + timedelta(microseconds=min(instant, _LAST_DATETIME))


def from_timedelta(duration: timedelta) -> int:
    """Convert to microseconds, exactly."""
    return duration // timedelta(microseconds=1)


def to_timedelta(duration: int) -> timedelta:
    """Convert microseconds to a timedelta."""
    return timedelta(microseconds=duration)


def monotonic() -> float:
    """Return seconds for local deadlines: unrelated to any instant, and never adjusted."""
    return time.monotonic()


def boot_time() -> float:
    """Return seconds for the deadlines of leases: as ``monotonic``, and counted on while the machine is suspended.

    All processes of one machine see the same value.
    """
    return time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 1))
_CPUCLOCK_SCHED = 2  # Linux: the exact one of the three processor clocks of a process


def processor_time(pid: int) -> float:
    """Return the processor time that a process and all its threads have used, in seconds; 0 if it has exited.

    Computes the clock id that ``clock_getcpuclockid`` returns in C; Python has no such function.
    """
    if not linux.IS_LINUX:
        raise NotImplementedError("the processor time of another process can be read on Linux only")
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return 0.0
