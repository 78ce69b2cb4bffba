"""When nobody could lease a job: no worker was there, or the store took no write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from holdfast.clock import SECOND, SystemClock
from holdfast.driver import Change, Store
from holdfast.drivers.requests import Write
from holdfast.model.bounds import MAX_INSTANT

INTERVAL_SECONDS = 0.05
SLOW_WRITE = SECOND // 2  # microseconds: a small write that takes longer was blocked
PROBE = "soak-probe"  # the kind of the entry that is written

Interval = tuple[int, int]  # first and last instant


class Outages:
    """A thread that asks again and again whether a worker is there, and writes to the store."""

    def __init__(self, store: Store, any_ready: Callable[[], bool]) -> None:
        """``any_ready`` says whether a worker has begun to reserve, and is neither dead nor stopped."""
        self._absent: list[Interval] = []  # no worker was there
        self._blocked: list[Interval] = []  # the store took no write
        self._store = store
        self._any_ready = any_ready
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End to watch. Raises what the thread has raised."""
        self._ended.set()
        self._thread.join(120)
        if self._failure is not None:
            raise self._failure

    @property
    def intervals(self) -> list[Interval]:
        """All outages; they may overlap."""
        return [*self._absent, *self._blocked]

    @property
    def text(self) -> str:
        """How long they were."""
        absent, blocked = (time_inside(kind, 0, MAX_INSTANT) / SECOND for kind in (self._absent, self._blocked))
        return f"no worker for {absent:.1f} s, no write for {blocked:.1f} s"

    def _watch(self) -> None:
        try:
            clock, absent_since = SystemClock(), None
            while not self._ended.wait(INTERVAL_SECONDS):
                began = clock.now()
                self._store.do(Write(changes=[Change(kind=PROBE, key=PROBE, value=b"")]))
                written = clock.now()
                if written - began > SLOW_WRITE:
                    self._blocked.append((began, written))
                if not self._any_ready():
                    absent_since = absent_since or began
                elif absent_since is not None:
                    self._absent.append((absent_since, began))
                    absent_since = None
        except Exception as error:
            self._failure = error


def time_inside(intervals: Iterable[Interval], began: int, ended: int) -> int:
    """Return how much of the time between two instants is in at least one of the intervals."""
    total, covered_to = 0, began
    for first, last in sorted(intervals):
        total += max(0, min(last, ended) - max(first, covered_to))
        covered_to = max(covered_to, last)
    return total
