"""``Senders``: a bounded number of threads that send requests, and the requests that wait for them."""

from __future__ import annotations

import queue
import threading
from collections import ChainMap, deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from holdfast.clock import monotonic
from holdfast.model.fair_share import share_left
from holdfast.webhooks.shares import Pace, Place, next_place

Task: TypeAlias = Callable[[], bool]

THREADS = 32
QUICK_SECONDS = 2.0  # a request that takes longer makes its host slow
SILENT_SECONDS = 9.0  # less than any timeout of a request
MAX_WAITING = 1024  # tasks that wait for a sender; a space may have half of what the others leave
MAX_REMEMBERED = 10_000  # places
STOP_SECONDS = 5.0  # that requests under way have to end


class Senders:
    """Threads that run tasks. A task returns whether it has sent a request to the host of its place, and never raises.

    A task that was put waits until ``begin`` or the end of another task finds a sender for it, by ``next_place``.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._waiting: dict[Place, deque[Task]] = {}
        self._running: dict[Task, tuple[Place, float]] = {}  # with the instant of the start
        self._paces: dict[Place, Pace] = {}  # the place that was called last comes last
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"holdfast-sender-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def room(self, space: str) -> int:
        """How many more tasks of a space may be put: those that wait for a quick host take the free senders first."""
        with self._lock:
            free = len(self._threads) - len(self._running)
            left, held = MAX_WAITING, 0
            for place, tasks in self._waiting.items():
                left -= len(tasks)
                held += len(tasks) if place.space == space else 0
                if place.space == space and self._paces.get(place) is Pace.QUICK:
                    free -= len(tasks)
            return max(0, min(free, share_left(held, left)))

    def put(self, place: Place, task: Task) -> None:
        """Let a task wait for a sender."""
        with self._lock:
            self._waiting.setdefault(place, deque()).append(task)

    def begin(self) -> None:
        """Begin the tasks that may begin now."""
        with self._lock:
            self._begin()

    def drop_waiting(self) -> None:
        """Forget the tasks that have not begun."""
        with self._lock:
            self._waiting.clear()

    def stop(self) -> None:
        """Wait for the tasks that run, for some seconds. A callback that takes longer is sent again when it is due."""
        for _ in self._threads:
            self._tasks.put(None)
        deadline = monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _begin(self) -> None:
        while self._waiting:
            running = [place for place, _ in self._running.values()]
            place = next_place(self._waiting, running, self._current_paces(), senders=len(self._threads))
            if place is None:
                return
            task = self._waiting[place].popleft()
            if not self._waiting[place]:
                del self._waiting[place]
            self._running[task] = (place, monotonic())
            self._tasks.put(task)

    def _current_paces(self) -> Mapping[Place, Pace]:
        """Return the paces of hosts. A request that runs for long already shows the pace of its host."""
        now = monotonic()
        late: dict[Place, Pace] = {}
        for place, began in self._running.values():
            known = self._paces.get(place)
            shown = _pace_of(now - began)
            if shown is not Pace.QUICK and known is None:
                shown = Pace.SILENT
            late[place] = max(shown, known or Pace.QUICK, late.get(place, Pace.QUICK))
        return ChainMap({place: pace for place, pace in late.items() if pace is not Pace.QUICK}, self._paces)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            has_sent = False
            try:
                has_sent = task()
            finally:
                with self._lock:
                    place, began = self._running.pop(task)
                    if has_sent:
                        self._remember(place, _pace_of(monotonic() - began))
                    self._begin()

    def _remember(self, place: Place, pace: Pace) -> None:
        self._paces.pop(place, None)
        self._paces[place] = pace
        if len(self._paces) > MAX_REMEMBERED:
            del self._paces[next(iter(self._paces))]


def _pace_of(seconds: float) -> Pace:
    if seconds < QUICK_SECONDS:
        return Pace.QUICK
    return Pace.SLOW if seconds < SILENT_SECONDS else Pace.SILENT
